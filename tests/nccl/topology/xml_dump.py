"""NCCL's dump of its topology beside the one that Railwise writes, attribute by attribute."""
import xml.etree.ElementTree

NAMES = {"cpu": "numaid", "pci": "busid", "net": "name", "nvlink": "target", "pcilink": "target"}
# host_hash is a number of NCCL's own. maxconn is the device's max_qp, which NCCL's plugin asks of the driver: /sys does not tell it.
OWN = {("cpu", "host_hash"), ("net", "maxconn")}


def _flatten(element, path, found, order):
    path = f"{path}/{element.tag}" + (f"[{element.get(NAMES[element.tag])}]" if element.tag in NAMES else "")
    found[path] = {name: value for name, value in element.attrib.items() if (element.tag, name) not in OWN}
    order.append(path)
    for child in element:
        _flatten(child, path, found, order)


def _read(text):
    found, order = {}, []
    _flatten(xml.etree.ElementTree.fromstring(text), "", found, order)
    return found, order


def compare(theirs, ours, first):
    """(attributes that both have, complaints). Elements, their order, and every attribute have to be equal. `first`: the host's first rank in
    NCCL's job; Railwise counts from 0."""
    nccl, nccl_order = _read(theirs)
    for attributes in nccl.values():
        if "rank" in attributes:
            attributes["rank"] = str(int(attributes["rank"]) - first)
    own, own_order = _read(ours)
    complaints = [f"{path}: NCCL alone" for path in nccl_order if path not in own]
    complaints += [f"{path}: Railwise alone" for path in own_order if path not in nccl]
    if not complaints and nccl_order != own_order:
        first = next((a, b) for a, b in zip(nccl_order, own_order) if a != b)
        complaints.append(f"the order differs: NCCL {first[0]}, Railwise {first[1]}")
    compared = 0
    for path in nccl_order:
        for name in sorted(set(nccl[path]) | set(own.get(path, {}))) if path in own else ():
            a, b = nccl[path].get(name), own[path].get(name)
            compared += 1
            if a != b:
                complaints.append(f"{path} {name}: NCCL {a}, Railwise {b}")
    return compared, complaints
