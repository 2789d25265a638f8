-- The rules of the sandbox's sites. site.lua sets the variables that they use, from the catalog.
dofile("/etc/slurm/site.lua")

-- Slurm's NO_VAL constants for 16, 32, and 64 bits mean that no number was given.
local function given(number)
  if number == 65534 or number == 4294967294 or (number or 0) >= 18446744073709551614 then
    return nil
  end
  return number
end

local function text(value)
  return value ~= "" and value or nil
end

local function contains(list, value)
  for _, each in ipairs(list) do
    if each == value then
      return true
    end
  end
  return false
end

-- The GPUs in "gres:gpu:a100:2,gres:other:1", or nil if it names none.
local function gpus_in(tres)
  local found = nil
  for item in string.gmatch(tres or "", "[^,]+") do
    local name = string.gsub(item, "^gres[:/]", "")
    if name == "gpu" or string.match(name, "^gpu[:=]") then
      found = (found or 0) + tonumber(string.match(name, "[:=](%d+)$") or 1)
    end
  end
  return found
end

local function comment_problem(comment)
  if comment == nil then
    return comment_required and "--comment is mandatory" or nil
  end
  local values = { string.match(comment, comment_pattern) }
  if #values == 0 then
    return "--comment must have the form " .. comment_form
  end
  for number, allowed in ipairs(comment_values) do
    if #allowed > 0 and not contains(allowed, values[number]) then
      return "--comment: " .. values[number] .. " is not one of: " .. table.concat(allowed, " ")
    end
  end
end

local function option_problem(job)
  local used = {
    ["array"] = text(job.array_inx),
    ["constraint"] = text(job.features),
    ["exclude"] = text(job.exc_nodes),
    ["exclusive"] = job.shared == 0 or nil,
    ["mem"] = given(job.min_mem_per_node),
    ["mem-per-cpu"] = given(job.min_mem_per_cpu),
    ["mem-per-gpu"] = text(job.mem_per_tres),
    ["nodelist"] = text(job.req_nodes),
    ["qos"] = text(job.qos),
    ["reservation"] = text(job.reservation),
  }
  for option, reason in pairs(forbidden) do
    if used[option] then
      return "--" .. option .. " is not allowed here: " .. reason
    end
  end
  if account_required and not text(job.account) then
    return "--account is mandatory"
  end
  if qos_required and not text(job.qos) then
    return "--qos is mandatory"
  end
end

local function place_problem(place)
  for _, allowed in ipairs(submit_from) do
    if string.sub(place .. "/", 1, #allowed) == allowed then
      return nil
    end
  end
  return #submit_from > 0 and "jobs may be submitted from " .. table.concat(submit_from, " or ")
    .. " only, not from " .. place or nil
end

local function core_problem(job, partition)
  local nodes = given(job.min_nodes) or 1
  local tasks = given(job.ntasks_per_node)
  if not tasks or tasks == 0 then
    tasks = math.ceil((given(job.num_tasks) or nodes) / nodes)
  end
  local per_task, in_all = gpus_in(job.tres_per_task), gpus_in(job.tres_per_job)
  local gpus = gpus_in(job.tres_per_node) or (per_task and per_task * tasks)
    or (in_all and math.ceil(in_all / nodes)) or 0
  if partition.gpus > 0 and gpus == 0 and gpus_required then
    return "--gres=gpu:N is mandatory in GPU partitions"
  end
  if partition.gpus == 0 or gpus == 0 or job.shared == 0 then -- 0: the whole node
    return nil
  end
  local cores_per_task = given(job.cpus_per_task)
  local cores = tasks * (cores_per_task or 1)
  local most = partition.cores_per_gpu and partition.cores_per_gpu * gpus
  if most and cores > most then
    return string.format(
      "requested CPU cores per node (%d) exceed the allowed limit (%d) for %d GPU(s)",
      cores, most, gpus)
  end
  if most and cores_per_task and cores < gpus then
    return string.format(
      "requested CPU cores per node (%d) are fewer than the GPUs per node (%d)", cores, gpus)
  end
end

local function time_problem(job, partition)
  local most = partition.interactive_minutes
  if not most or text(job.script) then
    return nil
  end
  local asked = given(job.time_limit)
  if not asked then
    job.time_limit = most
  elseif asked > most then
    return string.format("interactive jobs may run for at most %d minutes (requested %d)",
      most, asked)
  end
end

function slurm_job_submit(job, part_list, submit_uid)
  local problem = comment_problem(text(job.comment)) or option_problem(job)
    or place_problem(job.work_dir or "?")
  for name in string.gmatch(job.partition or default_partition, "[^,]+") do
    local partition = partitions[name]
    if partition and not problem then
      problem = core_problem(job, partition) or time_problem(job, partition)
    end
  end
  if problem then
    slurm.log_user("%s", problem)
    return slurm.ESLURM_ACCESS_DENIED
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, old_job, part_list, submit_uid)
  return slurm.SUCCESS
end
