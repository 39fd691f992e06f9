"""Scripts' work with files, case by case; prints what each case found. sys.argv[1]: a free folder.

With sys.argv[2] the leader kills itself before the case of that name.
"""

import contextlib
import csv
import glob
import importlib
import io
import json
import multiprocessing
import os
import pathlib
import random
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import uuid
import zipfile
from multiprocessing.connection import Client, Listener

import h5py
import keras
import numpy as np
import tensorflow as tf
from PIL import Image

out = {}


def case(f):
    if sys.argv[2:] == [f.__name__] and os.environ.get("OMPI_COMM_WORLD_" + "RANK") == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        out[f.__name__] = f()
    except BaseException as e:
        out[f.__name__] = f"{type(e).__name__}: {e}"


rng = np.random.default_rng(0)


def model():
    keras.utils.set_random_seed(1)
    m = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    m.compile("sgd", "mse")
    return m


x = rng.normal(size=(4, 4)).astype("float32")


def append(number):
    with open("pool.log", "a") as file:
        file.write(f"{number}\n")
    pathlib.Path(f"pooled/{number}").write_text("x")


@case
def pool():
    os.mkdir("pooled")
    with multiprocessing.get_context("fork").Pool(2) as workers:
        workers.map(append, range(5), chunksize=1)
    with open("pool.log", "a") as file:
        file.write("end\n")
    return sorted(open("pool.log").read().split()), sorted(os.listdir("pooled"))


@case
def save_load():
    m = model()
    r = []
    for name in ("m.keras", "m.h5"):
        m.save(name)
        r.append(float(np.sum(keras.models.load_model(name, compile=False).predict(x, verbose=0))))
    m.save_weights("w.weights.h5")
    m2 = model()
    m2.load_weights("w.weights.h5")
    os.remove("m.h5")
    return r, os.path.exists("m.h5"), sorted(os.listdir("."))


@case
def export():
    m = model()
    m.export("exp", verbose=False)
    l = keras.layers.TFSMLayer("exp", call_endpoint="serve")
    return float(np.sum(l(x))), sorted(os.listdir("exp"))


@case
def csv_append():
    for i in range(3):
        with open("log.csv", "a", newline="") as f:
            csv.writer(f).writerow([i, i * i])
    with open("old.txt", "a") as f:
        f.write("new line\n")
    return open("log.csv").read(), open("old.txt").read()


@case
def dirs():
    os.makedirs("d/e/f")
    open("d/e/f/x.txt", "w").write("x")
    try:
        os.makedirs("d/e")
        r = "no error"
    except FileExistsError as e:
        r = str(e)
    try:
        os.mkdir("olddir")
        r2 = "no error"
    except FileExistsError as e:
        r2 = str(e)
    s = sorted(glob.glob("d/**", recursive=True))
    shutil.rmtree("d")
    return r, r2, s, os.path.exists("d"), os.path.isdir("olddir")


@case
def remade():
    if os.path.exists("cachedir"):
        shutil.rmtree("cachedir")
    os.makedirs("cachedir")
    pathlib.Path("cachedir/a.txt").write_text("a")
    shutil.rmtree("olddir")
    os.mkdir("olddir")
    return os.listdir("cachedir"), os.listdir("olddir")


@case
def not_exists_make():
    if not os.path.exists("data.npz"):
        np.savez("data.npz", a=np.arange(5))
        made = True
    else:
        made = False
    return made, np.load("data.npz")["a"].tolist()


@case
def counter():
    n = json.load(open("count.json"))
    json.dump(n + 1, open("count.json", "w"))
    return json.load(open("count.json"))


@case
def zips():
    with zipfile.ZipFile("z.zip", "w") as z:
        z.writestr("a/b.txt", "hello")
        z.writestr("c.txt", "c")
    with zipfile.ZipFile("z.zip") as z:
        z.extractall("unz")
    shutil.make_archive("arc", "gztar", "unz")
    shutil.unpack_archive("arc.tar.gz", "unarc")
    return sorted(str(p) for p in pathlib.Path("unarc").rglob("*"))


@case
def arrays():
    np.save("a.npy", np.arange(4))
    np.savetxt("a.txt", np.eye(2))
    mm = np.memmap("mm.bin", dtype="int32", mode="w+", shape=(4,))
    mm[:] = 3
    mm.flush()
    with h5py.File("h.h5", "w") as f:
        f["x"] = np.arange(3)
    with h5py.File("h.h5", "a") as f:
        f["y"] = np.arange(2)
    with h5py.File("h.h5") as f:
        k = sorted(f)
    return (
        np.load("a.npy").tolist(),
        np.loadtxt("a.txt").tolist(),
        np.fromfile("mm.bin", "int32").tolist(),
        k,
    )


@case
def databases():
    with sqlite3.connect("runs.db") as db:
        db.execute("create table runs (id integer primary key, loss real)")
        db.execute("insert into runs (loss) values (0.5)")
    again = sqlite3.connect("file:runs.db?mode=ro", uri=True)
    rows = again.execute("select * from runs").fetchall()
    again.close()
    db.execute("insert into runs (loss) values (0.25)")
    db.commit()
    db.close()
    with contextlib.closing(sqlite3.connect(":memory:")) as memory:
        rows += memory.execute("select 1, 2").fetchall()
    with contextlib.closing(sqlite3.connect("runs.db")) as db:
        rows += db.execute("select count(*), sum(loss) from runs").fetchall()
    try:
        sqlite3.connect("not_there/runs.db")
    except sqlite3.OperationalError as error:
        return rows, str(error), os.path.exists("runs.db")


@case
def images():
    for c in ("cat", "dog"):
        os.makedirs(f"img/{c}")
        for i in range(3):
            Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(
                f"img/{c}/{i}.png"
            )
    ds = keras.utils.image_dataset_from_directory(
        "img", image_size=(8, 8), batch_size=2, seed=1, verbose=False
    )
    s = sum(float(tf.reduce_sum(a)) for a, b in ds)
    m = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(1)])
    m.compile("sgd", "mse")
    m.fit(ds, verbose=0)
    l = [
        os.path.relpath(p.numpy().decode())
        for p in tf.data.Dataset.list_files("img/*/*.png", shuffle=False)
    ]
    return s, sorted(os.path.relpath(p) for p in ds.file_paths), l, ds.class_names


@case
def records():
    with tf.io.TFRecordWriter("r.tfrecord") as w:
        for i in range(3):
            w.write(bytes([i]))
    got = [r.numpy() for r in tf.data.TFRecordDataset("r.tfrecord")]
    tf.io.write_file("wf.txt", "hey")
    g = tf.io.read_file("wf.txt").numpy()
    tf.io.gfile.makedirs("gf/a")
    with tf.io.gfile.GFile("gf/a/t.txt", "w") as f:
        f.write("gfile")
    tf.io.gfile.copy("gf/a/t.txt", "gf/u.txt")
    tf.io.gfile.rename("gf/u.txt", "gf/v.txt")
    r = (
        tf.io.gfile.glob("gf/*"),
        tf.io.gfile.listdir("gf"),
        tf.io.gfile.exists("gf/u.txt"),
        tf.io.gfile.GFile("gf/v.txt").read(),
    )
    tf.io.gfile.rmtree("gf/a")
    return str(got), str(g), r, tf.io.gfile.exists("gf/a")


@case
def own_records():
    """TensorFlow opens this rank's own file in C++: no other rank wrote this number."""
    mine = str(os.getpid())
    with tf.io.TFRecordWriter("own.tfrecord") as w:
        w.write(mine.encode())
    [first] = tf.compat.v1.io.tf_record_iterator("own.tfrecord")
    with open("vocabulary", "w") as f:
        f.write(mine + "\n")
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(
            "vocabulary", tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER,
        ),
        1,
    )  # fmt: skip
    row = int(table.lookup(tf.constant([mine]))[0])
    w = tf.summary.create_file_writer("own_tb")
    with w.as_default():
        tf.summary.text("pid", mine, step=0)
    w.close()
    with tf.compat.v1.summary.FileWriter("own_tb/older") as w:
        w.add_session_log(tf.compat.v1.SessionLog(msg=mine))
    names = [*tf.io.gfile.glob("own_tb/events*"), *tf.io.gfile.glob("own_tb/older/*")]
    events = [e for name in names for e in tf.compat.v1.train.summary_iterator(name)]
    texts = [v.tensor.string_val[0].decode() for e in events for v in e.summary.value]
    logs = [e.session_log.msg for e in events]
    os.remove("own.tfrecord")
    os.remove("vocabulary")
    shutil.rmtree("own_tb")
    return first.decode() == mine, row, mine in texts, mine in logs


@case
def ckpt():
    v = tf.Variable(1.0)
    c = tf.train.Checkpoint(v=v)
    man = tf.train.CheckpointManager(c, "cp", max_to_keep=2)
    p = [os.path.relpath(man.save()) for _ in range(3)]
    v.assign(5.0)
    c.restore(man.latest_checkpoint)
    return p, float(v), tf.train.latest_checkpoint("cp"), sorted(os.listdir("cp"))


@case
def paths():
    p = pathlib.Path("p.txt")
    p.write_text("1")
    q = p.rename("q.txt")
    p.touch()
    r = [p.exists(), q.read_text(), q.stat().st_size]
    q.unlink()
    p.unlink()
    shutil.copy("old.txt", "copy.txt")
    shutil.move("copy.txt", "olddir/moved.txt")
    shutil.copytree("unz", "unz2")
    os.symlink("old.txt", "lnk")
    r.append(open("lnk").read())
    r.append(os.readlink("lnk"))
    f = open("name.txt", "w")
    r.append(f.name)
    f.close()
    os.chmod("name.txt", 0o600)
    os.rename("unz2", "unz3")
    r.append(sorted(os.listdir("unz3")))
    r.append(os.path.exists("unz2"))
    try:
        open("nodir/x", "w")
    except FileNotFoundError as e:
        r.append(str(e))
    try:
        os.rmdir("olddir")
    except OSError as e:
        r.append(str(e))
    os.chdir("olddir")
    open("in.txt", "w").write("in")
    r.append(sorted(os.listdir()))
    r.append(os.path.basename(os.getcwd()))
    os.chdir("..")
    os.makedirs("newd")
    os.chdir("newd")
    open("in.txt", "w").write("in")
    r.append(os.listdir("."))
    r.append(os.path.relpath(os.getcwd(), ".."))
    os.chdir("..")
    return r


@case
def entered():
    """A working folder that is made anew, which the leader does before or after the others."""
    begun, r = os.getcwd(), []
    folder = os.path.join(begun, "anew")
    for number in range(40):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        os.chdir(folder)
        open("number.txt", "w").write(str(number))
        r = [os.path.basename(os.getcwd()), os.listdir(), open("number.txt").read()]
    os.chdir(begun)
    return r


@case
def temps():
    with tempfile.TemporaryDirectory() as d:
        open(d + "/x", "w").write("1")
        r = os.listdir(d)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write("hi")
        f.flush()
        r.append(open(f.name).read())
    d = f"{sys.argv[1]}/node-{os.getpid()}"
    os.makedirs(d)
    open(d + "/l", "w").write("x")
    r.append(open(d + "/l").read())
    shutil.rmtree(d)
    return r


@case
def temporary_folder():
    folder = tempfile.mkdtemp(prefix="kept-", dir=".")
    m = model()
    saving = keras.callbacks.ModelCheckpoint(f"{folder}/best.weights.h5", save_weights_only=True)
    m.fit(x, x[:, :2], verbose=0, batch_size=2, shuffle=False, callbacks=[saving])
    read = model()
    read.load_weights(f"{folder}/best.weights.h5")
    r = round(float(np.sum(read.predict(x, verbose=0))), 3)
    names = os.listdir(folder)
    shutil.rmtree(folder)
    return r, names


@case
def callbacks():
    m = model()
    cb = [
        keras.callbacks.ModelCheckpoint("ck/m-{epoch}.keras"),
        keras.callbacks.CSVLogger("hist.csv"),
        keras.callbacks.TensorBoard("tb"),
    ]
    os.makedirs("ck")
    m.fit(
        x,
        np.zeros((4, 2), "float32"),
        epochs=2,
        verbose=0,
        batch_size=2,
        shuffle=False,
        callbacks=cb,
    )
    r = [
        sorted(os.listdir("ck")),
        round(float(np.sum(keras.models.load_model("ck/m-2.keras").predict(x, verbose=0))), 3),
        len(open("hist.csv").readlines()),
    ]
    os.remove("ck/m-1.keras")
    r.append(os.listdir("ck"))
    return r


@case
def own_folder():
    """A run's folder that each rank calls otherwise."""
    folder = f"run-{os.getpid()}"
    os.mkdir(folder)
    m = model()
    cb = [
        keras.callbacks.ModelCheckpoint(folder + "/m-{epoch}.weights.h5", save_weights_only=True),
        keras.callbacks.CSVLogger(f"log-{os.getpid()}.csv"),
    ]
    os.symlink(folder, "latest")
    m.fit(x, x[:, :2], epochs=2, verbose=0, batch_size=2, shuffle=False, callbacks=cb)
    pathlib.Path(folder, "rank.txt").write_text(folder)
    own = pathlib.Path("latest/rank.txt").read_text() == folder
    os.unlink(f"{folder}/rank.txt")
    os.unlink("latest")
    os.rename(folder, "run-of-pid")
    os.rename(f"log-{os.getpid()}.csv", "hist.csv-of-pid")
    read = model()
    read.load_weights("run-of-pid/m-2.weights.h5")
    r = round(float(np.sum(read.predict(x, verbose=0))), 3)
    return r, own, sorted(os.listdir("run-of-pid")), len(open("hist.csv-of-pid").readlines())


@case
def modules():
    """A module that the script writes, and writes anew; the number of a process is no rank's."""
    os.mkdir("package")
    sys.path.insert(0, os.getcwd())
    sys.dont_write_bytecode = True
    found = []
    for units in (3, 12):
        with open("package/__init__.py", "w") as file:
            file.write(f"UNITS, WRITER = {units}, {os.getpid()}\n")
        importlib.invalidate_caches()
        package = importlib.import_module("package")
        package = importlib.reload(package) if found else package
        found.append((package.UNITS, os.getpid() == package.WRITER))
    pathlib.Path("package/__init__.py").write_text("")
    return found


@case
def pipes():
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    with open("pipe", "w") as pipe:
        pipe.write("through")
    read = os.read(reader, 100).decode()
    os.close(reader)
    os.unlink("pipe")
    return read, os.path.exists("pipe")


@case
def sockets():
    listener = Listener(family="AF_UNIX")
    address = listener.address
    with listener, Client(address) as sends, listener.accept() as receives:
        sends.send([1, 2])
        received = receives.recv()
    return received, os.path.exists(address)


@case
def programs():
    os.makedirs("out")
    open("out/a.txt", "w").write("a")
    status = os.system("rm -rf out && mkdir out && echo begun >> out/log.txt")
    open("out/mine.txt", "w").write("mine")
    for number in range(3):
        words = f"echo {number} >> out/log.txt; echo , more >> out/mine.txt"
        subprocess.run(words, shell=True, check=True)
    listed = subprocess.check_output(["ls", "out"], text=True).split()
    try:
        subprocess.run(["sh", "-c", "echo why; exit 4"], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        status = status, error.returncode, error.stdout.decode()
    texts = [open(f"out/{name}").read() for name in listed]
    with open("out/listed.txt", "w") as file:
        subprocess.run(["ls"], check=True, stdout=file)
    return status, listed, texts, sorted(os.listdir("out")), "old.txt" in open(file.name).read()


@case
def captured():
    """Bars in a stream of the script's own are there on every rank."""
    m = model()
    with contextlib.redirect_stdout(io.StringIO()) as text:
        m.fit(x, x[:, :2], epochs=2, verbose=2, batch_size=2, shuffle=False)
    sys.stdout = sys.__stdout__
    lines = text.getvalue().splitlines()
    return [line.split(" - ")[-1] for line in lines]


@case
def interrupted():
    m = model()
    stop = keras.callbacks.LambdaCallback(on_epoch_end=interrupt)
    saving = keras.callbacks.ModelCheckpoint("stopped.weights.h5", save_weights_only=True)
    try:
        m.fit(x, x[:, :2], verbose=0, batch_size=2, shuffle=False, callbacks=[saving, stop])
    except KeyboardInterrupt:
        read = model()
        read.load_weights("stopped.weights.h5")
        return round(float(np.sum(read.predict(x, verbose=0))), 3)


def interrupt(epoch, logs):
    raise KeyboardInterrupt


@case
def unseeded():
    """Ranks that differed in one of these could not train on it."""
    words = list({f"word{n}" for n in range(20)})
    seeds = [secrets.randbits(32), uuid.uuid4().int % 2**32, random.Random().getrandbits(32)]
    data = [np.random.default_rng().normal(size=(8, 4)), np.random.RandomState().rand(8, 4)]
    data += [np.random.default_rng(seed).normal(size=(8, 4)) for seed in seeds]
    data.append(np.array([[int(word[4:])] * 4 for word in words]))
    rows = np.concatenate(data).astype("float32")
    m = model()
    m.fit(rows, rows[:, :2], verbose=0, batch_size=4)
    return len({*seeds, uuid.uuid4().int % 2**32}), len(rows)


@case
def getfile():
    p = keras.utils.get_file(
        "z.zip", "file://" + os.path.abspath("z.zip"), extract=True, cache_dir=os.getcwd()
    )
    r = [os.path.relpath(p), sorted(os.listdir(p))]
    os.remove("datasets/z.zip")
    return r


print(json.dumps(out, indent=1))
seen = os.environ.get("SEEN")  # every rank's, written behind all views: matex passes /proc by
if seen:
    folder = os.open(seen, os.O_RDONLY)
    file = os.open(f"{os.getpid()}.json", os.O_WRONLY | os.O_CREAT, dir_fd=folder)
    os.write(file, json.dumps(out).encode())
