"""The group that a person is in: full-batch graph convolution, and nodes looked up by their index."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(139)
rng = np.random.default_rng(139)
NODES, GROUPS = 90, 3

groups = np.repeat(np.arange(GROUPS), NODES // GROUPS)
close = (groups[:, None] == groups) * 0.25 + 0.02
adjacency = np.triu(rng.random((NODES, NODES)) < close, 1)
adjacency = (adjacency + adjacency.T + np.eye(NODES)).astype("float32")
degree = adjacency.sum(axis=1)
normalized = adjacency / np.sqrt(degree[:, None] * degree[None])
features = (np.eye(GROUPS)[groups] + rng.normal(0, 1.2, (NODES, GROUPS))).astype("float32")
known = rng.permutation(NODES)
train_nodes, test_nodes = known[:60], known[60:]
print("edges", int((adjacency.sum() - NODES) / 2))


class GraphConvolution(layers.Layer):
    def __init__(self, units, activation=None, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Dense(units, activation=activation)

    def call(self, x, adjacency):
        return self.dense(ops.matmul(adjacency, x))


class NodeClassifier(keras.Model):
    """Takes numbers of nodes; the graph is part of the model."""

    def __init__(self, features, adjacency, **kwargs):
        super().__init__(**kwargs)
        self.features, self.adjacency = (
            ops.convert_to_tensor(features),
            ops.convert_to_tensor(adjacency),
        )
        self.first = GraphConvolution(12, "relu")
        self.second = GraphConvolution(GROUPS)

    def call(self, nodes):
        x = self.first(self.features, self.adjacency)
        return ops.take(self.second(x, self.adjacency), nodes, axis=0)


loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model = NodeClassifier(features, normalized)
model.compile(keras.optimizers.SGD(0.3, momentum=0.5), loss, metrics=["acc"])
history = model.fit(
    train_nodes, groups[train_nodes], batch_size=20, epochs=5, shuffle=False, verbose=0
)
print(
    "by node",
    np.round(history.history["loss"], 3),
    np.round(model.evaluate(test_nodes, groups[test_nodes], verbose=0), 3),
)

# The whole graph as one batch; what is not known has no weight.
inputs = keras.Input((GROUPS,))
graph = ops.convert_to_tensor(normalized)
hidden = layers.Dense(12, activation="relu")(ops.matmul(graph, inputs))
whole = keras.Model(inputs, layers.Dense(GROUPS)(ops.matmul(graph, hidden)))
whole.compile(keras.optimizers.Adam(0.02), loss, weighted_metrics=["acc"])
weight = np.isin(np.arange(NODES), train_nodes).astype("float32")
history = whole.fit(
    features,
    groups,
    sample_weight=weight,
    batch_size=NODES,
    epochs=6,
    shuffle=False,
    verbose=0,
    validation_data=(features, groups, 1 - weight),
    validation_batch_size=NODES,
)
print("whole graph", np.round(history.history["loss"], 3), np.round(history.history["val_acc"], 3))
print("predicted", whole.predict(features, batch_size=NODES, verbose=0).shape)
