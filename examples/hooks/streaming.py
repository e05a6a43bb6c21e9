"""A session whose messages are written down as they come: follow them with `rota logs ID --follow`."""

import json

import model

import rota


def transcript_of(run_id):
    return f"runs/{run_id}.jsonl"


def execute(job, ctx):
    session = model.Session()
    prompt = f"Job: {job.id} - {job.title}"
    output = ""
    with open(transcript_of(ctx.run_id), "w", buffering=1) as transcript:  # a line at a time, for those who follow
        transcript.write(json.dumps({"type": "user", "text": prompt}) + "\n")
        session.send(prompt)
        for count, message in enumerate(session.stream()):
            transcript.write(json.dumps(message) + "\n")
            ctx.progress(count, note="messages")
            if message["type"] == "assistant":
                output += message["text"]
    return {"success": True, "output": output.strip()}


rota.run_worker(execute, capture_io=lambda run_id, job: {"transcript_path": transcript_of(run_id)})
