"""Heart records in a CSV file: lookups and normalisation as preprocessing model, mapped in tf.data."""

import csv

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(5)
rng = np.random.default_rng(5)

NUMERIC = ["age", "pressure", "oldpeak"]
ROWS = 500
columns = {
    "age": rng.normal(54, 9, ROWS).round(),
    "pressure": rng.normal(130, 17, ROWS).round(),
    "oldpeak": rng.gamma(2.0, 0.6, ROWS).round(1),
    "thal": rng.choice(["fixed", "normal", "reversible"], ROWS),
    "vessels": rng.integers(0, 4, ROWS),
}
risk = 0.06 * (columns["age"] - 54) + columns["vessels"] + 2.0 * (columns["thal"] == "reversible")
columns["target"] = (risk + rng.normal(0, 0.5, ROWS) > 2).astype(int)

with open("heart.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values()))

with open("heart.csv", newline="") as file:
    rows = list(csv.DictReader(file))
data = {name: np.array([row[name] for row in rows]) for name in rows[0]}
for name in NUMERIC:
    data[name] = data[name].astype("float32")
data["vessels"] = data["vessels"].astype("int64")
target = data.pop("target").astype("float32")
print(len(rows), "rows,", int(target.sum()), "positive")


def dataset_of(part):
    features = {name: values[part] for name, values in data.items()}
    return tf.data.Dataset.from_tensor_slices((features, target[part]))


train, held_out = dataset_of(slice(0, 400)), dataset_of(slice(400, None))

inputs, encoded = {}, []
for name in NUMERIC:
    normalize = layers.Normalization(axis=None)
    normalize.adapt(data[name][:400])
    inputs[name] = keras.Input(shape=(1,), name=name)
    encoded.append(normalize(inputs[name]))
thal = layers.StringLookup(output_mode="one_hot", vocabulary=sorted(set(data["thal"])))
inputs["thal"] = keras.Input(shape=(1,), name="thal", dtype="string")
encoded.append(thal(inputs["thal"]))
vessels = layers.IntegerLookup(output_mode="one_hot", vocabulary=[0, 1, 2, 3])
inputs["vessels"] = keras.Input(shape=(1,), name="vessels", dtype="int64")
encoded.append(vessels(inputs["vessels"]))
preprocessing = keras.Model(inputs, layers.Concatenate()(encoded))


def encode(features, label):
    return preprocessing({name: values[:, None] for name, values in features.items()}), label


train = train.shuffle(400, seed=1).batch(40).map(encode, num_parallel_calls=tf.data.AUTOTUNE)
held_out = held_out.batch(40).map(encode)

x = keras.Input(shape=preprocessing.output.shape[1:])
hidden = layers.Dense(16, activation="relu")(x)
model = keras.Model(x, layers.Dense(1, activation="sigmoid")(hidden))
model.compile("rmsprop", "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(name="auc")])
model.fit(train.prefetch(tf.data.AUTOTUNE), epochs=6, validation_data=held_out, verbose=0)
results = model.evaluate(held_out, return_dict=True, verbose=0)
print({name: round(value, 3) for name, value in results.items()})

patient = {"age": 66.0, "pressure": 145.0, "oldpeak": 1.2, "thal": "reversible", "vessels": 3}
batch = {name: tf.convert_to_tensor([[value]]) for name, value in patient.items()}
whole = keras.Model(inputs, model(preprocessing(inputs)))
print(f"risk of this patient: {100 * float(whole.predict(batch, verbose=0)[0, 0]):.1f} %")
