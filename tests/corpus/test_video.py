from __future__ import annotations

import hashlib
import importlib
from fractions import Fraction
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import require
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from corpus.video_files import HEIGHT, WIDTH, Film, film_bytes, number_of, sound_bytes, subtitled, turned
from vrag.corpus.converter import ConversionContext, CorpusOptions
from vrag.corpus.discover import read_source
from vrag.corpus.formats.clip_cut import copy_clip, encode_clip
from vrag.corpus.formats.pyav import Timeline, decode, scan
from vrag.corpus.formats.video import VideoFile, cut_points, sample_evenly, sample_frames
from vrag.corpus.pages.page_pass import PageReading
from vrag.errors import CorpusError, FileTooLargeError, UnsupportedFormatError
from vrag.types import Clip, Item, ItemFacts, ItemKind, TextSource, TurnedText

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

require("video", "av")

FILMS = {
    "mp4 with frames out of order": ("a.mp4", Film(options=(("bf", "3"),), sound="aac")),
    "mp4 with open groups of pictures": (
        "a.mp4",
        Film(options=(("x264-params", "open-gop=1:bframes=3:scenecut=0"),), sound="aac"),
    ),
    "mov": ("a.MOV", Film(kind="mov", sound="aac")),
    "m4v": ("a.m4v", Film(codec="mpeg4", options=(("bf", "2"),))),
    "mkv": ("a.Mkv", Film(kind="matroska", options=(("bf", "3"),), sound="libopus")),
    "mkv of hevc": (
        "a.mkv",
        Film(kind="matroska", codec="libx265", options=(("x265-params", "log-level=none"),)),
    ),
    "webm": ("a.webm", Film(kind="webm", codec="libvpx-vp9", sound="libopus", options=(("cpu-used", "8"),))),
    "avi": ("a.avi", Film(kind="avi", codec="mpeg4")),
    "key frames only": ("a.mkv", Film(kind="matroska", codec="mjpeg", options=(("strict", "-1"),))),
    "first frame not at zero": (
        "a.mkv",
        Film(kind="matroska", times=range(70_000, 82_000, 100), sound="aac"),
    ),
    "recorded by a browser, without an index": (
        "a.webm",
        Film(kind="webm", codec="libvpx", sound="libopus", container=(("live", "1"),)),
    ),
    "in fragments": ("a.mp4", Film(sound="aac", container=(("movflags", "frag_keyframe+empty_moov"),))),
    "mp4 with the first frame not at zero": ("a.mp4", Film(times=range(500, 12_500, 100), sound="aac")),
    "variable frame rate": ("a.mp4", Film(times=[*range(0, 3000, 50), *range(3000, 12_000, 300)])),
    "mp4 named mkv": ("a.mkv", Film()),
    "avi named mp4": ("a.mp4", Film(kind="avi", codec="mpeg4")),
}


def write(tmp_path: Path, name: str, data: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def clips_of(path: Path, seconds: float = 3, items: str = "items") -> list[Item]:
    context = ConversionContext(path.parent / items, CorpusOptions(clip_seconds=seconds, ocr="never"))
    with VideoFile(read_source(path), context) as video:
        return [video.item(ordinal) for ordinal in range(1, video.count + 1)]


def clip(item: Item) -> Clip:
    assert item.clip
    return item.clip


def numbers(path: Path) -> list[int]:
    """The numbers of all frames of a video, in the order in which they are shown."""
    timeline = scan(path)
    return [
        number_of(image) for _, image in sorted(decode(path, timeline, timeline.shown), key=lambda f: f[0])
    ]


def heard(path: Path) -> list[bytes]:
    """The packets of sound of a file."""
    av: Any = importlib.import_module("av")
    with av.open(str(path)) as container:
        return [bytes(packet) for packet in container.demux(audio=0) if packet.size]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILMS)
def test_clips_together_show_every_frame_and_sound_once(tmp_path: Path, name: str) -> None:
    file, film = FILMS[name]
    path = write(tmp_path, file, film_bytes(film))
    items = clips_of(path)
    assert len(items) >= 3
    paths = [tmp_path / "items" / clip(item).path for item in items]
    assert [n for path in paths for n in numbers(path)] == list(range(len(film.times)))
    if film.sound:
        assert [p for path in paths for p in heard(path)] == heard(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILMS)
def test_clips_meet_and_their_times_count_from_the_first_frame(tmp_path: Path, name: str) -> None:
    file, film = FILMS[name]
    items = clips_of(write(tmp_path, file, film_bytes(film)))
    clips = [clip(item) for item in items]
    assert clips[0].start == 0
    assert all(first.end == second.start for first, second in pairwise(clips))
    step = film.times[-1] - film.times[-2]
    assert clips[-1].end * 1000 == pytest.approx(film.times[-1] - film.times[0] + step, abs=45 + step * 0.7)
    for item, after in pairwise(clips):
        begin = film.times[numbers(tmp_path / "items" / after.path)[0]] - film.times[0]
        assert after.start * 1000 == pytest.approx(begin, abs=2)
        assert all(item.start <= moment < item.end for moment in item.frames)
        assert item.frames[0] == item.start


def test_an_item_is_a_clip_with_one_of_its_key_frames_as_picture(tmp_path: Path) -> None:
    items = clips_of(write(tmp_path, "talk.mp4", film_bytes(Film())))
    assert [item.ordinal for item in items] == [1, 2, 3, 4]
    for item in items:
        assert item.kind is ItemKind.CLIP
        assert (item.size and (item.size.width, item.size.height)) == (WIDTH, HEIGHT)
        assert item.image == f"{item.document[:16]}/{item.ordinal}.jpg"
        assert clip(item).path == f"{item.document[:16]}/{item.ordinal}.mp4"
        with Image.open(tmp_path / "items" / str(item.image)) as image:
            shown = number_of(image) / 10
        assert shown in clip(item).frames
    assert not list((tmp_path / "items").rglob("*.part"))


def test_the_picture_is_no_black_frame_where_there_is_another(tmp_path: Path) -> None:
    film = Film(blank=frozenset(range(55)))
    (item,) = clips_of(write(tmp_path, "a.mp4", film_bytes(film)), seconds=60)
    with Image.open(tmp_path / "items" / str(item.image)) as image:
        assert number_of(image) >= 55


def test_the_same_bytes_give_the_same_items_and_clips(tmp_path: Path) -> None:
    for name, film in (("a.mkv", Film(kind="matroska", sound="aac")), ("b.mp4", Film(sound="aac"))):
        path = write(tmp_path, name, film_bytes(film))
        first, second = clips_of(path), clips_of(path, items="again")
        assert first == second
        for item in first:
            sums = {
                hashlib.sha256((tmp_path / folder / clip(item).path).read_bytes()).hexdigest()
                for folder in ("items", "again")
            }
            assert len(sums) == 1


def test_a_video_without_key_frames_in_between_is_one_clip(tmp_path: Path) -> None:
    film = Film(key_every=10_000, options=(("x264-params", "scenecut=0"),))
    (item,) = clips_of(write(tmp_path, "a.mp4", film_bytes(film)))
    assert clip(item).end == pytest.approx(12)
    assert clip(item).frames == (0.0,)


def test_only_clips_that_frames_reach_across_are_coded_anew(tmp_path: Path) -> None:
    plain = write(tmp_path, "a.mp4", film_bytes(Film(codec="mpeg4")))
    reached = write(tmp_path, "b.mp4", film_bytes(Film(codec="mpeg4", options=(("bf", "2"),))))
    for path, codec in ((plain, "mpeg4"), (reached, "h264")):
        assert [codec_of(tmp_path / "items" / clip(item).path) for item in clips_of(path)] == [codec] * 4


def codec_of(path: Path) -> str:
    av: Any = importlib.import_module("av")
    with av.open(str(path)) as container:
        return container.streams.video[0].codec_context.name


def test_what_the_container_does_not_take_goes_into_matroska(tmp_path: Path) -> None:
    film = Film(kind="matroska", codec="libx264")
    path = write(tmp_path, "a.webm", film_bytes(film))
    items = clips_of(path)
    assert {Path(clip(item).path).suffix for item in items} == {".mkv"}
    assert [n for item in items for n in numbers(tmp_path / "items" / clip(item).path)] == list(range(120))


def test_a_turned_video_has_upright_pictures(tmp_path: Path) -> None:
    path = write(tmp_path, "a.mp4", turned(film_bytes(Film())))
    frame = sample_frames(path)[3].image
    assert frame.size == (HEIGHT, WIDTH)
    assert number_of(frame.rotate(90, expand=True)) == 30
    items = clips_of(path)
    assert items[0].size
    assert (items[0].size.width, items[0].size.height) == (HEIGHT, WIDTH)
    again = sample_frames(tmp_path / "items" / clip(items[1]).path)[0].image
    assert again.size == (HEIGHT, WIDTH), "the stored clip is turned as well"


def test_subtitles_become_the_text_of_the_clip_in_which_they_begin(tmp_path: Path) -> None:
    lines = [(500, 1500, "Welcome aboard"), (3100, 3900, "Größer werden"), (8000, 9000, "<i>Goodbye</i>")]
    data = subtitled(Film(kind="matroska", times=range(0, 12_000, 100)), lines)
    items = clips_of(write(tmp_path, "a.mkv", data))
    assert [item.text for item in items] == ["Welcome aboard", "Größer werden", "Goodbye", ""]
    assert items[0].text_source is TextSource.FILE
    assert items[3].text_source is TextSource.NONE


def test_without_subtitles_the_picture_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vrag.corpus.formats.video.read_picture", _seen)
    path = write(tmp_path, "a.mp4", film_bytes(Film()))
    with VideoFile(read_source(path), ConversionContext(tmp_path, CorpusOptions())) as video:
        item = video.item(1)
    assert (item.text, item.text_source) == ("seen words", TextSource.OCR)
    assert item.facts.turned == (TurnedText(0, 10, 90),)


def _seen(picture: Image.Image, mode: str) -> PageReading:
    return PageReading("seen words", (), TextSource.OCR, ItemFacts(turned=(TurnedText(0, 10, 90),)))


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("sound.mp4", sound_bytes(), "sound only"),
        ("sound.mkv", sound_bytes("matroska", "libopus"), "sound only"),
        ("text.mp4", b"only words, and no film", "seems to be text"),
        ("list.mp4", b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1/a.ts\n", "seems to be text"),
        ("empty.avi", b"RIFF\x00\x00\x00\x00AVI " + bytes(100), "damaged"),
        ("zeros.mkv", b"\x1aE\xdf\xa3" + bytes(1000), "damaged"),
        ("begun.mp4", film_bytes(Film())[:3000], "damaged"),
    ],
)
def test_what_is_no_video_is_refused_with_its_reason(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    path = write(tmp_path, name, data)
    with pytest.raises(CorpusError, match=reason):
        VideoFile(read_source(path), ConversionContext(tmp_path, CorpusOptions()))


def test_a_video_of_one_frame_or_of_too_many_pixels(tmp_path: Path) -> None:
    (item,) = clips_of(write(tmp_path, "one.mkv", film_bytes(Film(kind="matroska", times=[0, 40]))))
    assert 0 < clip(item).end < 0.2
    path = write(tmp_path, "large.mp4", film_bytes(Film()))
    with pytest.raises(FileTooLargeError, match="144 × 64 pixels"):
        VideoFile(read_source(path), ConversionContext(tmp_path, CorpusOptions(max_pixels=5000)))


@pytest.mark.parametrize(("kind", "name"), [("matroska", "a.mkv"), ("avi", "a.avi")])
def test_a_video_that_was_cut_short_gives_what_is_there_and_says_so(
    tmp_path: Path, kind: str, name: str
) -> None:
    data = film_bytes(Film(kind=kind, codec="mpeg4", sound="aac" if kind == "matroska" else ""))
    path = write(tmp_path, name, data[: len(data) * 2 // 3] if kind == "matroska" else data[: len(data) // 4])
    with VideoFile(
        read_source(path), ConversionContext(tmp_path / "items", CorpusOptions(clip_seconds=3))
    ) as video:
        assert video.count >= 2
        assert clip(video.item(1)).start == 0
        with pytest.raises(CorpusError, match=r"12\.0 seconds|cut short"):
            video.item(video.count)


def test_without_the_extra_a_video_fails_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "a.mp4", film_bytes(Film()))
    monkeypatch.setattr("vrag.corpus.formats.pyav.importlib.import_module", _missing)
    with pytest.raises(
        UnsupportedFormatError, match=r"pip install 'vrag-agent\[video\]'.*try the file again"
    ):
        VideoFile(read_source(path), ConversionContext(tmp_path, CorpusOptions()))


def _missing(name: str) -> object:
    raise ImportError(name)


def seconds(path: Path, fps: float = 1.0, most: int = 32, least: int = 4) -> list[float]:
    frames = sample_frames(path, fps, most, least)
    shown = [number_of(frame.image) for frame in frames]
    assert shown == sorted(set(shown))
    return [frame.seconds for frame in frames]


def test_one_frame_a_second_is_sampled(tmp_path: Path) -> None:
    path = write(tmp_path, "a.mp4", film_bytes(Film()))
    assert seconds(path) == list(range(12))
    assert [number_of(frame.image) for frame in sample_frames(path)] == list(range(0, 120, 10))
    assert seconds(path, fps=0.5) == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    ("fps", "most", "least", "expected"),
    [(1, 8, 4, 8), (1, 32, 32, 32), (10, 32, 4, 32), (100, 500, 4, 120), (0.01, 32, 4, 4), (0.01, 32, 1, 1)],
)
def test_long_videos_are_sampled_evenly_and_short_ones_at_least_so_often(
    tmp_path: Path, fps: float, most: int, least: int, expected: int
) -> None:
    path = write(tmp_path, "a.mkv", film_bytes(Film(kind="matroska")))
    found = seconds(path, fps, most, least)
    assert len(found) == expected
    gaps = [after - before for before, after in pairwise(found)]
    assert not gaps or max(gaps) - min(gaps) <= 0.101
    assert len(found) == 1 or (found[0], found[-1]) == (0, 11.9 if expected != 12 else 11)


@pytest.mark.parametrize(
    ("fps", "most", "least", "expected"),
    [(1, 8, 4, 8), (1, 64, 4, 12), (0.8, 64, 4, 8), (0.01, 8, 4, 4), (1, 8, 8, 8), (100, 500, 4, 120)],
)
def test_even_frames_are_those_of_qwens_own_code(
    tmp_path: Path, fps: float, most: int, least: int, expected: int
) -> None:
    """Of 120 frames, those at `numpy.linspace(0, 119, n)`, n even."""
    path = write(tmp_path, "a.mp4", film_bytes(Film()))
    frames, rate = sample_evenly(path, fps, most, least)
    right = np.linspace(0, 119, expected).round().astype(int).tolist()
    assert [number_of(frame.image) for frame in frames] == right
    assert rate == pytest.approx(expected / 12)


def test_sampling_never_asks_for_more_than_it_allows(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="least"):
        sample_frames(tmp_path / "a.mp4", most=8, least=32)


@pytest.mark.parametrize(
    "times", [range(70_000, 82_000, 100), [*range(0, 3000, 50), *range(3000, 12_000, 300)]]
)
def test_samples_are_what_is_seen_at_that_moment(tmp_path: Path, times: Sequence[int]) -> None:
    path = write(tmp_path, "a.mkv", film_bytes(Film(kind="matroska", times=times, options=(("bf", "3"),))))
    for number, frame in enumerate(sample_frames(path)):
        seen = times[number_of(frame.image)] - times[0]
        assert frame.seconds * 1000 == pytest.approx(seen, abs=1)
        assert seen <= number * 1000 < seen + 301


def test_open_groups_are_decoded_with_the_one_before(tmp_path: Path) -> None:
    film = FILMS["mp4 with open groups of pictures"][1]
    path = write(tmp_path, "a.mp4", film_bytes(film))
    timeline = scan(path)
    for pts in timeline.shown:
        ((found, image),) = decode(path, timeline, [pts])
        assert found == pts
        assert number_of(image) == round(timeline.seconds(pts) * 10)


def test_a_few_frames_that_are_shown_for_long_are_all_taken(tmp_path: Path) -> None:
    path = write(tmp_path, "a.mkv", film_bytes(Film(kind="matroska", times=[0, 100, 200, 20_000, 20_100])))
    assert len(sample_frames(path, least=4)) == 4
    assert len(sample_frames(path, least=20)) == 5


@given(
    gaps=st.lists(st.integers(1, 90_000), min_size=1, max_size=60),
    keys=st.lists(st.booleans(), min_size=60, max_size=60),
    swaps=st.sets(st.integers(0, 58), max_size=20),
    seconds=st.floats(0.5, 20),
    tick=st.sampled_from(
        [Fraction(1, 90_000), Fraction(1001, 30_000), Fraction(1, 1000), Fraction(1, 12_800)]
    ),
)
def test_cuts_are_key_frames_in_order_and_clean_or_known_to_be_open(
    gaps: list[int], keys: list[bool], swaps: set[int], seconds: float, tick: Fraction
) -> None:
    pts = list(accumulate(gaps, initial=0))
    for at in swaps:
        if 0 < at < len(pts) - 1:
            pts[at], pts[at + 1] = pts[at + 1], pts[at]
    flags = bytes([1, *keys[: len(pts) - 1]])
    timeline = Timeline(tick=tick, pts=pts, keys=flags, first=0, end=max(pts) + 1, size=(9, 9))
    cuts, reached = cut_points(timeline, seconds)
    assert cuts[0] == 0
    assert list(cuts) == sorted(set(cuts))
    for cut in cuts[1:]:
        at = pts.index(cut)
        assert flags[at]
        clean = max(pts[:at]) < cut == min(pts[at:])
        assert clean == (cut not in reached)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("write_stretch", [copy_clip, encode_clip])
@pytest.mark.parametrize("kind", ["mp4", "matroska"])
def test_a_full_disk_is_no_fault_of_the_video(
    tmp_path: Path, write_stretch: Callable[..., None], kind: str
) -> None:
    path = write(tmp_path, "a.mp4", film_bytes(Film(sound="aac")))
    timeline = scan(path)
    with pytest.raises(OSError, match="No space"), Path("/dev/full").open("wb") as out:
        write_stretch(path, timeline, (timeline.first, None), out, kind)


def test_large_frames_can_be_had_smaller_with_their_proportions(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(film_bytes(Film(times=range(0, 3000, 100), size=(640, 320))))
    full, small = sample_frames(path), sample_frames(path, pixels=20_000)
    assert [frame.seconds for frame in small] == [frame.seconds for frame in full]
    assert {frame.image.size for frame in full} == {(640, 320)}
    assert {frame.image.size for frame in small} == {(200, 100)}
    assert [number_of(frame.image) for frame in small] == [number_of(frame.image) for frame in full]


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.avi"])
@pytest.mark.parametrize(
    "text",
    ["#EXTM3U\n#EXTINF:1,\n{}\n", "ffconcat version 1.0\nfile '{}'\n", "v=0\nm=video 5004 RTP/AVP 96\n#{}"],
)
def test_a_list_of_other_files_is_no_video(tmp_path: Path, name: str, text: str) -> None:
    """FFmpeg follows such lists to other files and addresses, whatever the name says."""
    (tmp_path / "other.mp4").write_bytes(film_bytes(Film()))
    path = tmp_path / name
    path.write_text(text.format(tmp_path / "other.mp4"))
    with pytest.raises(CorpusError, match="not a video"):
        VideoFile(read_source(path), ConversionContext(tmp_path, CorpusOptions()))
    with pytest.raises(CorpusError):
        scan(path)
