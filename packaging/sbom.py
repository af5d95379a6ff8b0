#!/usr/bin/env python3
"""What is in a package, as SPDX 2.3 in JSON: PACKAGE.spdx.json beside each PACKAGE (.deb or .rpm).

Usage: sbom.py [--built-in NAME=VERSION=LICENCE=PACKAGE,PACKAGE...] PACKAGE...

--built-in names a library that is linked into the programs of these packages. The date is SOURCE_DATE_EPOCH, so that equal packages have
equal lists.
"""
import argparse
import datetime
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

LICENCE = "Apache-2.0"


def output(*command, stdin=None):
    return subprocess.run(command, check=True, stdin=stdin, stdout=subprocess.PIPE).stdout


def tar_files(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            if member.isfile():
                yield "./" + member.name.removeprefix("./"), archive.extractfile(member).read()


def read_package(path):
    """Name, version, architecture, and the files with what is in them."""
    if path.suffix == ".deb":
        fields = [output("dpkg-deb", "--field", path, field).decode().strip() for field in ("Package", "Version", "Architecture")]
        return *fields, sorted(tar_files(output("dpkg-deb", "--fsys-tarfile", path)))
    if path.suffix == ".rpm":
        fields = output("rpm", "--query", "--package", "--queryformat", "%{NAME}\n%{VERSION}-%{RELEASE}\n%{ARCH}", path).decode().split("\n")
        with path.open("rb") as package:  # with a name it would write a file
            return *fields, sorted(tar_files(output("rpm2archive", "--nocompression", "-", stdin=package)))
    sys.exit(f"sbom.py: {path}: neither a .deb nor a .rpm")


def checksums(content, *algorithms):
    return [{"algorithm": name, "checksumValue": hashlib.new(name.lower(), content).hexdigest()} for name in algorithms]


def kinds(name, content):
    if content.startswith(b"\x7fELF"):
        return ["BINARY"]
    return ["DOCUMENTATION"] if "/share/doc/" in name else ["TEXT"]


def document(path, built_in):
    name, version, architecture, files = read_package(path)
    package = f"SPDXRef-Package-{name}"
    entries = [{"SPDXID": f"SPDXRef-File-{number}", "fileName": file, "fileTypes": kinds(file, content),
                "checksums": checksums(content, "SHA1", "SHA256"), "licenseConcluded": LICENCE, "copyrightText": "NOASSERTION"}
               for number, (file, content) in enumerate(files, 1)]
    code = hashlib.sha1("".join(sorted(entry["checksums"][0]["checksumValue"] for entry in entries)).encode()).hexdigest()
    whole = path.read_bytes()
    digest = hashlib.sha256(whole).hexdigest()
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0")) or int(path.stat().st_mtime)
    packages = [{
        "SPDXID": package, "name": name, "versionInfo": version, "packageFileName": path.name, "supplier": "Organization: Railwise",
        "downloadLocation": "NOASSERTION", "filesAnalyzed": True, "packageVerificationCode": {"packageVerificationCodeValue": code},
        "checksums": checksums(whole, "SHA256"), "licenseConcluded": LICENCE, "licenseDeclared": LICENCE, "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "INSTALL", "comment": f"for {architecture}"}]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", package)] + [(package, "CONTAINS", entry["SPDXID"]) for entry in entries]
    for library, library_version, licence, inside in built_in:
        if name not in inside:
            continue
        identity = "SPDXRef-BuiltIn-" + re.sub(r"[^A-Za-z0-9.-]", "-", library)
        packages.append({"SPDXID": identity, "name": library, "versionInfo": library_version, "downloadLocation": "NOASSERTION",
                         "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION"})
        relations.append((package, "STATIC_LINK", identity))
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": path.name,
        "documentNamespace": f"https://railwise.invalid/spdx/{path.name}-{digest}",
        "creationInfo": {"created": datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Organization: Railwise", "Tool: railwise-sbom"]},
        "packages": packages, "files": entries,
        "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in relations]}


def built_in_library(text):
    name, version, licence, inside = text.split("=")
    return name, version, licence, inside.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--built-in", type=built_in_library, action="append", default=[])
    parser.add_argument("packages", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    for path in arguments.packages:
        path.with_name(path.name + ".spdx.json").write_text(json.dumps(document(path, arguments.built_in), indent=1) + "\n")


if __name__ == "__main__":
    main()
