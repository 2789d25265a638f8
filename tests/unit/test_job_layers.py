"""Configuration < job file < command line, and wishes that have two spellings."""

from __future__ import annotations

from plan_builders import layer

from neuronctl.request.job import Source, build_request
from neuronctl.request.typed_options import options_layer


def test_later_layers_win_and_are_named() -> None:
    request = build_request(
        [
            layer(Source.CONFIG, account="mine", field="nlp", nodes=1),
            layer(Source.JOB_FILE, nodes=2, time_limit="1:00:00"),
            layer(Source.ASKED, time_limit="2:00:00"),
        ]
    )
    assert (request.account, request.nodes, request.time_limit) == ("mine", 2, "2:00:00")
    assert request.origin("account").source is Source.CONFIG
    assert request.origin("nodes").source is Source.JOB_FILE
    assert request.origin("time_limit").source is Source.ASKED


def test_variables_add_up_by_name() -> None:
    request = build_request(
        [layer(env=(("A", "1"), ("B", "1"))), layer(env=(("B", "2"), ("C", "2")))]
    )
    assert request.env == (("A", "1"), ("B", "2"), ("C", "2"))


def test_gpus_of_another_layer_take_their_type_along() -> None:
    request = build_request([layer(gpus_per_node=4, gpu_type="v100"), layer(gpus_per_node=2)])
    assert (request.gpus_per_node, request.gpu_type) == (2, None)
    assert "gpu_type" not in request.origins


def test_conda_and_venv_are_one_wish() -> None:
    assert build_request([layer(conda="x"), layer(venv="y")]).conda is None
    assert build_request([layer(venv="y"), layer(conda="x")]).venv is None


def test_tasks_are_one_wish() -> None:
    low = layer(ntasks=8, ntasks_per_node=4)
    assert build_request([low, layer(ntasks=2)]).ntasks_per_node is None
    assert build_request([low, layer(ntasks_per_node=2)]).ntasks is None


def test_field_and_appl_add_up_but_a_comment_replaces_both() -> None:
    both = build_request([layer(field="nlp"), layer(appl="jax")])
    assert (both.field, both.appl) == ("nlp", "jax")
    one = build_request([layer(field="nlp", appl="jax"), layer(comment="x")])
    assert (one.comment, one.field, one.appl) == ("x", None, None)
    other = build_request([layer(comment="x"), layer(appl="jax")])
    assert (other.comment, other.appl) == (None, "jax")


def test_another_script_brings_its_own_arguments() -> None:
    request = build_request([layer(script="a.py", args=("1",)), layer(script="b.py")])
    assert (request.script, request.args) == ("b.py", ())


def test_an_empty_program_does_not_run_that_of_the_job_file() -> None:
    """An unset variable in ``submit -f job.yaml "$PROGRAM" 5``."""
    job_file = layer(Source.JOB_FILE, script="train.py", args=("1",))
    for words in (("",), ("", "5")):
        request = build_request([job_file, options_layer({}, words)])
        assert (request.script, request.args) == ("", words[1:])
