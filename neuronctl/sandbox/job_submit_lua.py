"""The site's policy as job_submit.lua, so that Slurm itself rejects what the site rejects. Pure.

Only the tables at the top come from the catalog; the rules below them are fixed text.
"""

from __future__ import annotations

from typing import Iterable, List, Mapping

from neuronctl.sandbox.layout import Layout, cores_per_gpu

# The sbatch options whose effect the Lua code can see.
DETECTABLE_OPTIONS = (
    "array",
    "constraint",
    "exclude",
    "exclusive",
    "mem",
    "mem-per-cpu",
    "mem-per-gpu",
    "nodelist",
    "qos",
    "reservation",
)


def job_submit_lua(layout: Layout, user: str) -> str:
    """job_submit.lua for the policy of the layout's cluster; ``user`` is the sandbox's only user.

    Of ``forbidden_options``, only those in DETECTABLE_OPTIONS are enforced: Slurm's plugin cannot
    see the others.
    """
    policy = layout.cluster.policy
    partitions = []
    for each in layout.partitions:
        partition = each.partition
        words = [f"gpus = {partition.gpus_per_node}"]
        limit = partition.wall_time.interactive_maximum
        if limit is not None:
            words.append(f"interactive_minutes = {limit // 60}")
        cap = cores_per_gpu(layout, each)
        if cap and policy.cores.rule == "cap":
            words.append(f"cores_per_gpu = {cap}")
        partitions.append(f"  [{quote(partition.name)}] = {{ {', '.join(words)} }},")
    places = [place.replace("{user}", user).rstrip("/") for place in policy.submit_from]
    forbidden = {
        option: reason
        for option, reason in policy.forbidden_options.items()
        if option in DETECTABLE_OPTIONS
    }
    head = [
        f"-- The rules of {layout.cluster.name} as of {layout.cluster.date}, from the catalog.",
        "local partitions = {",
        *partitions,
        "}",
        f"local submit_from = {_list(places)}",
        f"local forbidden = {_table(forbidden)}",
        f"local gpus_required = {_bool(policy.gpus_required)}",
        f"local account_required = {_bool(policy.account_required)}",
        f"local qos_required = {_bool(policy.qos_required)}",
        f"local comment_required = {_bool(policy.comment.required)}",
        f"local comment_form = {quote(policy.comment.form)}",
        f"local comment_values = {_list(policy.comment.values)}",
        "local comment_fields = {",
        *(
            f"  {{ key = {quote(field.key)}, values = {_list(field.values)} }},"
            for field in policy.comment.fields
        ),
        "}",
    ]
    return "\n".join(head) + "\n" + _RULES


def quote(text: str) -> str:
    """A Lua string literal for exactly ``text``."""
    return '"' + "".join(_escape(byte) for byte in text.encode()) + '"'


def _escape(byte: int) -> str:
    plain = 32 <= byte < 127 and chr(byte) not in '"\\'
    return chr(byte) if plain else f"\\{byte:03d}"


def _list(texts: Iterable[str]) -> str:
    words: List[str] = [quote(text) for text in texts]
    return "{ " + ", ".join(words) + " }" if words else "{}"


def _table(pairs: Mapping[str, str]) -> str:
    words = [f"[{quote(key)}] = {quote(value)}" for key, value in sorted(pairs.items())]
    return "{ " + ", ".join(words) + " }" if words else "{}"


def _bool(value: bool) -> str:
    return "true" if value else "false"


_RULES = r"""
-- Slurm's NO_VAL constants for 16, 32, and 64 bits mean that no number was given.
local function given(number)
  if number == nil or number == 65534 or number == 4294967294 or number >= 18446744073709551614 then
    return nil
  end
  return number
end

local function text(value)
  if value == nil or value == "" then
    return nil
  end
  return value
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
  if comment_form == "word" then
    if not string.match(comment, "^[^%s;=]+$") then
      return "--comment must be one word"
    end
    if #comment_values > 0 and not contains(comment_values, comment) then
      return "--comment '" .. comment .. "' is not one of: " .. table.concat(comment_values, " ")
    end
  elseif comment_form == "fields" then
    local form = {}
    for _, field in ipairs(comment_fields) do
      table.insert(form, field.key .. "=...")
    end
    local rest = comment .. ";"
    for _, field in ipairs(comment_fields) do
      local key, value, after = string.match(rest, "^([^=;]*)=([^;]*);(.*)$")
      if key ~= field.key then
        return "--comment must have the form " .. table.concat(form, ";")
      end
      if not contains(field.values, value) then
        return "--comment: " .. key .. "=" .. value .. " is not allowed"
      end
      rest = after
    end
    if rest ~= "" then
      return "--comment must have the form " .. table.concat(form, ";")
    end
  end
  return nil
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
  return nil
end

local function place_problem(job)
  if #submit_from == 0 then
    return nil
  end
  local place = (job.work_dir or "") .. "/"
  for _, allowed in ipairs(submit_from) do
    if string.sub(place, 1, #allowed + 1) == allowed .. "/" then
      return nil
    end
  end
  return "jobs may be submitted from " .. table.concat(submit_from, " or ") .. " only, not from "
    .. (job.work_dir or "?")
end

local function core_problem(job, partition)
  local nodes = given(job.min_nodes) or 1
  local tasks = given(job.ntasks_per_node)
  if not tasks or tasks == 0 then
    tasks = math.ceil((given(job.num_tasks) or nodes) / nodes)
  end
  local per_task = gpus_in(job.tres_per_task)
  local gpus = gpus_in(job.tres_per_node) or (per_task and per_task * tasks)
  local in_all = gpus_in(job.tres_per_job)
  if not gpus and in_all then
    gpus = math.ceil(in_all / nodes)
  end
  if partition.gpus == 0 then
    return nil
  end
  if not gpus or gpus == 0 then
    if gpus_required then
      return "--gres=gpu:N is mandatory in GPU partitions"
    end
    return nil
  end
  if job.shared == 0 then
    return nil -- the whole node with all its cores
  end
  local cores_per_task = given(job.cpus_per_task)
  local cores = tasks * (cores_per_task or 1)
  if partition.cores_per_gpu and cores > partition.cores_per_gpu * gpus then
    return string.format(
      "requested CPU cores per node (%d) exceed the allowed limit (%d) for %d GPU(s)",
      cores, partition.cores_per_gpu * gpus, gpus)
  end
  if cores_per_task and cores < gpus then
    return string.format(
      "requested CPU cores per node (%d) are fewer than the GPUs per node (%d)", cores, gpus)
  end
  return nil
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
  return nil
end

function slurm_job_submit(job, part_list, submit_uid)
  local problem = comment_problem(text(job.comment)) or option_problem(job) or place_problem(job)
  for name in string.gmatch(job.partition or "", "[^,]+") do
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
"""
