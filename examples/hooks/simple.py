"""The smallest worker: one call of a model for each job.

rota add "Tag a.wav"
python examples/hooks/simple.py        # Ctrl-C lets the job in hand end
rota logs 1
"""

import json

import model

import rota


def paths(run_id):
    # Made of the run's id alone: never of a job's title or payload, which anyone may have written.
    return {"transcript_path": f"runs/{run_id}.jsonl", "stderr_path": f"runs/{run_id}.stderr"}


def execute(job, ctx):
    ctx.log(f"starting job {job.id}")
    answer = model.complete(f"Complete job {job.id}: {job.title}")
    # rota has made the folder; writing the file is up to you. `rota logs ID` shows it.
    with open(paths(ctx.run_id)["transcript_path"], "w") as transcript:
        transcript.write(json.dumps({"type": "assistant", "text": answer}) + "\n")
    return {"success": True, "output": answer}


rota.run_worker(execute, capture_io=lambda run_id, job: paths(run_id))
