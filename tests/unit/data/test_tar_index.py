"""The index of a tar in WebDataset's layout, and tars that are damaged or hold something else."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from matex.data.tar_index import samples_of
from matex.errors import DataError

PNG = b"\x89PNG\r\n" + bytes(range(256)) * 3
SAMPLES = {"a/0.png": PNG, "a/0.cls": b"3\n", "a/1.JPG": b"\xff\xd8\xff", "a/1.cls": b"0"}


def tar_of(path: Path, files: Mapping[str, bytes], *, format: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w", format=format) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_images_and_labels_by_place(format: int, tmp_path: Path) -> None:
    long = f"{'d' * 90}/{'n' * 90}"  # in GNU's and PAX's format it takes headers of its own
    files = {**SAMPLES, f"{long}.gif": b"GIF8x", f"{long}.cls": b"12"}
    path = tar_of(tmp_path / "a.tar", files, format=format)
    samples = samples_of(path)
    assert [sample.label for sample in samples] == [3, 0, 12]
    content = path.read_bytes()
    found = [content[s.image.offset : s.image.offset + s.image.size] for s in samples]
    assert found == [PNG, b"\xff\xd8\xff", b"GIF8x"]


def test_a_tar_without_files_has_no_samples(tmp_path: Path) -> None:
    assert samples_of(tar_of(tmp_path / "a.tar", {})) == []


@pytest.mark.parametrize(
    ("kind", "content", "label"),
    [
        ("cls", b"n0144", "n0144"),
        ("txt", b" 7 \n", 7),
        ("json", b"5", 5),
        ("json", b'"cat"', "cat"),
        ("json", b'{"caption": "x", "label": 4}', 4),
    ],
)
def test_labels_are_read_from_each_kind_of_file(
    kind: str, content: bytes, label: int | str, tmp_path: Path
) -> None:
    path = tar_of(tmp_path / "a.tar", {"0.jpg": PNG, f"0.{kind}": content})
    assert samples_of(path)[0].label == label


def test_the_class_comes_before_other_texts_and_a_field_can_be_named(tmp_path: Path) -> None:
    files = {"0.jpg": PNG, "0.json": b'{"kind": 8}', "0.txt": b"a caption", "0.seg.png": PNG}
    path = tar_of(tmp_path / "a.tar", {**files, "._0.jpg": b"", "__index__.json": b"{}"})
    assert samples_of(path, field="kind")[0].label == 8
    path = tar_of(tmp_path / "b.tar", {**files, "0.cls": b"2"})
    assert samples_of(path)[0].label == 2


BAD = {
    "no image": ({"0.cls": b"1"}, r"sample 0\) must have one image, of jpg.*Received: 0, with cls"),
    "two images": ({"0.jpg": PNG, "0.png": PNG, "0.cls": b"1"}, "one image.*Received: 2, with jpg"),
    "no label": (
        {"0.jpg": PNG},
        "must have its class in 0.cls.*jpg alone; for a tar of each class",
    ),
    "twice": ({"0.jpg": PNG, "0.JPG": PNG}, "must be in it once"),
    "no ending": ({"README": b"x"}, "must be named as WebDataset names it.*Received: README"),
    "below 0": ({"0.jpg": PNG, "0.cls": b"-1\n2"}, "number of a class, from 0.*Received: '-1"),
    "a number with a point": ({"0.jpg": PNG, "0.cls": b"10.0"}, "class.*Received: '10.0'"),
    "a number below 0": ({"0.jpg": PNG, "0.cls": b"-1"}, "number of a class.*Received: '-1'"),
    "a fraction": ({"0.jpg": PNG, "0.json": b"0.5"}, "number of a class.*Received: '0.5'"),
    "no text": ({"0.jpg": PNG, "0.cls": b"\xff\xfe"}, r"\.cls, must be text"),
    "no JSON": ({"0.jpg": PNG, "0.json": b"{"}, r"\.json, must be text"),
    "no field": (
        {"0.jpg": PNG, "0.json": b'{"a": 1}'},
        "must have a field label or .*as the label",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_tar_of_something_else(case: str, tmp_path: Path) -> None:
    files, message = BAD[case]
    path = tar_of(tmp_path / "a.tar", files)
    with pytest.raises(DataError, match=message) as caught:
        samples_of(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_cut_and_every_damaged_header_is_found(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "a.tar", SAMPLES)
    whole = path.read_bytes()
    last = samples_of(path)[-1].image
    end = last.offset + 512 + 512 + 512  # behind the last image: its block, a header and a label
    for cut in range(0, end + 1, 256):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError, match="copy it again") as caught:
            samples_of(path)
        assert "\n" not in str(caught.value)
    headers = [at for at in range(0, end, 512) if whole[at + 257 : at + 262] == b"ustar"]
    assert len(headers) == len(SAMPLES)
    for at in headers:
        path.write_bytes(whole[: at + 5] + b"\x7f" + whole[at + 6 :])
        with pytest.raises(DataError, match="copy it again"):
            samples_of(path)


def test_joined_archives_are_not_read_in_part(tmp_path: Path) -> None:
    content = tar_of(tmp_path / "a.tar", SAMPLES).read_bytes()
    both = tmp_path / "both.tar"
    both.write_bytes(content + content)
    with pytest.raises(DataError, match="archives that were joined; give them one by one"):
        samples_of(both)


def test_links_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        (tmp_path / "0.jpg").write_bytes(PNG)
        tar.add(tmp_path / "0.jpg", "0.jpg")
        os.link(tmp_path / "0.jpg", tmp_path / "1.jpg")
        tar.add(tmp_path / "1.jpg", "1.jpg")
    with pytest.raises(DataError, match=r"file 1\.jpg\) must be a plain file"):
        samples_of(path)


def test_images_are_not_read(tmp_path: Path) -> None:
    """The index reads headers, 1 KiB a sample, and labels."""
    files: dict[str, bytes] = {}
    for number in range(20):
        files |= {f"{number}.jpg": bytes(200_000), f"{number}.cls": b"1"}
    path = tar_of(tmp_path / "a.tar", files)

    def read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before = read()
    assert len(samples_of(path)) == 20
    assert read() - before < 20 * 1024 + 32_768
