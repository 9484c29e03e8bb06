# Asks the manager over varlink, for the cases of `newest.txt`.
#   varlink.py call METHOD PARAMETERS...    each answer in a line; METHOD+ takes several answers
#   varlink.py describe INTERFACE...        descriptions without comments
#   varlink.py unit NAME PATH...            what is told of a unit, at each of these places
#   varlink.py start PARAMETERS             what a stream of StartTransient is about
import json, re, socket, sys

PATH = "/run/systemd/io.systemd.Manager"


def answers(method, parameters):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(20)
    client.connect(PATH)
    call = {"method": method.rstrip("+"), "parameters": parameters, "more": method.endswith("+")}
    client.sendall(json.dumps(call).encode() + b"\0")
    rest = b""
    while True:
        while b"\0" in rest:
            message, rest = rest.split(b"\0", 1)
            answer = json.loads(message)
            yield answer
            if not answer.get("continues"):
                return
        piece = client.recv(1 << 20)
        if not piece:
            yield {"error": "hung up"}
            return
        rest += piece


def brief(answer):
    if "error" in answer:
        return "%s %s" % (answer["error"], json.dumps(answer.get("parameters", {}), sort_keys=True))
    said = answer.get("parameters") or {}
    if "context" in said and "ID" in (said["context"] or {}):
        return "unit %s" % said["context"]["ID"]
    # Numbers of jobs are nobody's business.
    said = {name: "N" if name in ("Id", "jobID") else value for name, value in said.items()}
    return json.dumps(said, sort_keys=True)


def at(value, path):
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def stream(answer):
    if "error" in answer:
        return brief(answer)
    said = answer["parameters"]
    state = at(said, "runtime.ActiveState")
    job = said.get("job") or {}
    words = ["unit" if said.get("context") else None, state, job.get("JobType"), job.get("State"), job.get("Result")]
    return " ".join(word for word in words if word)


verb, words = sys.argv[1], sys.argv[2:]
if verb == "call":
    for answer in answers(words[0], json.loads(words[1])):
        print(words[0], words[1], "=>", brief(answer))
if verb == "describe":
    for name in words:
        for answer in answers("org.varlink.service.GetInterfaceDescription", {"interface": name}):
            text = re.sub(r"#.*", "", answer["parameters"]["description"])
            text = re.sub(r"\s*([(),:])\s*", r"\1", " ".join(text.split()))
            for member in re.split(r" (?=type |method |error )", text):
                print(member)
if verb == "unit":
    for answer in answers("io.systemd.Unit.List", {"name": words[0]}):
        for path in words[1:]:
            print(path, json.dumps(at(answer.get("parameters", {}), path), sort_keys=True))
if verb == "start":
    for answer in answers("io.systemd.Unit.StartTransient+", json.loads(words[0])):
        print(stream(answer))
