"""wheel.py TREE VERSION ARCH FOLDER: packs the tree as a wheel into the folder and prints its path."""
import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile

SUMMARY = "A learned tensor compiler: compiles, runs and tunes ONNX models"


def needed_glibc(tree):
    """The newest version of glibc that a library or program of the tree asks for."""
    newest = (2, 17)
    for folder, _, files in os.walk(tree):
        for name in files:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                if file.read(4) != b"\x7fELF":
                    continue
            versions = subprocess.run(["readelf", "-V", path], capture_output=True, text=True, check=True).stdout
            newest = max([newest] + [tuple(map(int, v)) for v in re.findall(r"GLIBC_(\d+)\.(\d+)", versions)])
    return newest


def main():
    tree, version, arch, folder = sys.argv[1:]
    tag = "cp311-abi3-manylinux_{}_{}_{}".format(*needed_glibc(tree), arch)
    info = f"tessera_compiler-{version}.dist-info"
    with open("LICENSE", "rb") as file:
        licence = file.read()
    with open("python/entry_points.txt", "rb") as file:
        entry_points = file.read()
    with open("docs/guide/python.md", encoding="utf-8") as file:
        guide = file.read()
    made = {
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: tessera-compiler\nVersion: {version}\nSummary: {SUMMARY}\nRequires-Python: >=3.11\n"
            f"Requires-Dist: numpy>=1.23\nLicense-File: LICENSE\nDescription-Content-Type: text/markdown\n\n{guide}").encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tessera\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        f"{info}/entry_points.txt": entry_points,
        f"{info}/LICENSE": licence,
    }
    wheel = os.path.join(folder, f"tessera_compiler-{version}-{tag}.whl")
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        def add(name, content, mode):
            entry = zipfile.ZipInfo(name)  # its date is fixed: the same tree gives the same bytes
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            out.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")

        for base, folders, files in os.walk(tree):
            folders.sort()
            for name in sorted(files):
                path = os.path.join(base, name)
                with open(path, "rb") as file:
                    add(os.path.relpath(path, tree), file.read(), 0o755 if os.access(path, os.X_OK) else 0o644)
        for name, content in made.items():
            add(name, content, 0o644)
        record.append(f"{info}/RECORD,,")
        out.writestr(f"{info}/RECORD", "\n".join(record) + "\n")
    print(wheel)


main()
