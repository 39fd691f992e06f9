"""A wide teacher, a narrow student that learns from its softened outputs, the student alone beside it."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(47)
x = np.random.normal(size=(400, 12)).astype("float32")
y = (np.abs(x[:, :4]).argmax(axis=1)).astype("int32")


class Distiller(keras.Model):
    def __init__(self, student, teacher):
        super().__init__()
        self.teacher, self.student = teacher, student

    def compile(
        self, optimizer, metrics, student_loss_fn, distillation_loss_fn, alpha=0.1, temperature=3
    ):
        super().compile(optimizer=optimizer, metrics=metrics)
        self.student_loss_fn = student_loss_fn
        self.distillation_loss_fn = distillation_loss_fn
        self.alpha, self.temperature = alpha, temperature

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, allow_empty=False):
        teacher_pred = self.teacher(x, training=False)
        student_loss = self.student_loss_fn(y, y_pred)
        distillation_loss = self.distillation_loss_fn(
            ops.softmax(teacher_pred / self.temperature, axis=1),
            ops.softmax(y_pred / self.temperature, axis=1),
        ) * (self.temperature**2)
        return self.alpha * student_loss + (1 - self.alpha) * distillation_loss

    def call(self, x):
        return self.student(x)


def network(width, name):
    return keras.Sequential(
        [keras.Input((12,)), layers.Dense(width, activation="relu"), layers.Dense(4)], name=name
    )


teacher, student = network(48, "teacher"), network(6, "student")
scratch = keras.models.clone_model(student)
options = {
    "optimizer": keras.optimizers.Adam(0.01),
    "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    "metrics": [keras.metrics.SparseCategoricalAccuracy()],
}
teacher.compile(**options)
history = teacher.fit(x[:320], y[:320], epochs=5, shuffle=False, verbose=0)
print("teacher", np.round(history.history["loss"], 3))
print("teacher held out", np.round(teacher.evaluate(x[320:], y[320:], verbose=0), 3))

distiller = Distiller(student=student, teacher=teacher)
distiller.compile(
    optimizer=keras.optimizers.Adam(0.01),
    metrics=[keras.metrics.SparseCategoricalAccuracy()],
    student_loss_fn=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    distillation_loss_fn=keras.losses.KLDivergence(),
)
history = distiller.fit(x[:320], y[:320], epochs=3, shuffle=False, verbose=0)
print({name: np.round(values, 3).tolist() for name, values in sorted(history.history.items())})
print("student held out", np.round(distiller.evaluate(x[320:], y[320:], verbose=0), 3))

scratch.compile(optimizer=keras.optimizers.Adam(0.01), loss=options["loss"], metrics=["accuracy"])
scratch.fit(x[:320], y[:320], epochs=3, shuffle=False, verbose=0)
print("alone held out", np.round(scratch.evaluate(x[320:], y[320:], verbose=0), 3))
