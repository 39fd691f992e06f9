// The exchange of a step as one TensorFlow operation: gradients in, their sums over the ranks out.
//
// Written against TensorFlow's C interface, which outlives its releases, and without MPI's headers:
// MPI's functions and handles come as addresses from the library that mpi4py has loaded, so that
// there is nothing to link and nothing to mismatch. A handle is a pointer in Open MPI and in the
// standard ABI and an int in MPICH; passed in a register, both fit what the callee reads.
//
// The operation never calls Python (but for injected faults) and never repairs: it fails, so that TensorFlow itself keeps the update from running.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"

typedef uintptr_t Handle;

// What matex/exchange/native.py fills in before a step, and reads after it. It owns all memory here.
extern "C" struct Plan {
  int (*allreduce)(const void*, void*, int, Handle, Handle, Handle);
  int (*barrier)(Handle);
  int (*error_string)(int, char*, int*);
  int (*hook)(int phase);  // null unless faults are injected; other than 0 stops the operation
  Handle comm, datatype, sum;

  void* send;
  void* result;
  const int64_t* offsets;  // of the parts in both, in elements, and at last the whole length
  int64_t parts;
  int64_t most;            // elements in one call of MPI
  int64_t samples_at, fingerprint_at, nonfinite_at, one_at;  // places in the vector
  double samples, fingerprint, size;                         // what must stand there
  int32_t fence;         // whether result holds what a peer may still need until all are here
  int32_t check_finite;

  int32_t spoiled;       // this rank sent a NaN or an infinity; set before, it is to send one
  int32_t stage;         // how far it came: kStarted ...
  int64_t code;          // what MPI returned, 0 for success
  double waiting_since;  // seconds of CLOCK_MONOTONIC; 0 when not inside MPI
  double seconds;        // inside MPI in the last step
};

namespace {

enum Stage { kStarted = 1, kFenced = 2, kReduced = 3, kDone = 4 };
enum Phase { kBefore = 0, kReady = 1, kAfter = 2 };

const int kMostAxes = 16;

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
  uint32_t bits;
  if (rest >= 0x7c00u) {  // infinity and NaN
    bits = sign | 0x7f800000u | (rest & 0x3ffu) << 13;
  } else if (rest >= 0x0400u) {
    bits = sign | ((rest << 13) + (112u << 23));
  } else {  // below the normal numbers, all are multiples of 2^-24
    const float value = static_cast<float>(rest) * 5.9604644775390625e-8f;
    memcpy(&bits, &value, 4);
    bits |= sign;
  }
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

float Bfloat16ToFloat(uint16_t narrow) {
  const uint32_t bits = static_cast<uint32_t>(narrow) << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

// Integer comparisons, because sums of floats are not vectorised.
bool Infinite(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return (bits & 0x7f800000u) == 0x7f800000u;
}

bool Infinite(double value) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  return (bits & 0x7ff0000000000000u) == 0x7ff0000000000000u;
}

// Copies and looks for what is not finite in one pass; true when all is.
template <typename To, typename From, typename Convert>
bool Copy(const void* source, To* __restrict target, int64_t count, Convert convert) {
  const From* __restrict from = static_cast<const From*>(source);
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    const To value = static_cast<To>(convert(from[i]));
    target[i] = value;
    bad |= Infinite(value);
  }
  return bad == 0;
}

template <typename To>
bool CopyTensor(const TF_Tensor* tensor, int64_t first, To* target, int64_t count) {
  const TF_DataType type = TF_TensorType(tensor);
  const char* from = static_cast<const char*>(TF_TensorData(tensor)) + first * TF_DataTypeSize(type);
  switch (type) {
    case TF_FLOAT: return Copy<To, float>(from, target, count, [](float v) { return v; });
    case TF_DOUBLE: return Copy<To, double>(from, target, count, [](double v) { return v; });
    case TF_HALF: return Copy<To, uint16_t>(from, target, count, HalfToFloat);
    default: return Copy<To, uint16_t>(from, target, count, Bfloat16ToFloat);
  }
}

void NothingToFree(void*, size_t, void*) {}

struct Kernel {
  Plan* plan;
  TF_DataType type;
};

// The parts of this step, held as long as the operation runs; `part` is the one to be packed next.
struct Inputs {
  TF_Tensor** tensors = nullptr;
  int64_t count = 0;
  int64_t part = 0;

  ~Inputs() {
    for (int64_t i = 0; i < count; ++i) TF_DeleteTensor(tensors[i]);
    free(tensors);
  }
};

struct Call {
  TF_OpKernelContext* context;
  TF_Status* status;

  bool Fail(TF_Code code, const char* message) {
    TF_SetStatus(status, code, message);
    return false;
  }

  bool FailMpi(Plan* plan, const char* where, int code) {
    plan->code = code;
    char reason[8192] = "";
    int length = 0;
    plan->error_string(code, reason, &length);
    char message[8300];
    snprintf(message, sizeof message, "%s: %s", where, reason);
    return Fail(TF_UNAVAILABLE, message);
  }

  bool Hook(Plan* plan, Phase phase) {
    if (plan->hook == nullptr || plan->hook(phase) == 0) return true;
    return Fail(TF_ABORTED, "stopped by an injected fault");
  }

  // Packs a stretch, sums it while it is still in the cache, and goes on with the next one.
  template <typename T>
  bool PackAndReduce(Plan* plan, Inputs* inputs) {
    T* send = static_cast<T*>(plan->send);
    T* result = static_cast<T*>(plan->result);
    const int64_t length = plan->offsets[plan->parts];
    const double started = Now();
    double packing = 0;
    int code = 0;
    const char* where = "MPI_Barrier";
    if (plan->fence) {
      plan->waiting_since = started;
      code = plan->barrier(plan->comm);
    }
    if (code == 0) plan->stage = kFenced;
    bool finite = plan->spoiled == 0;
    for (int64_t at = 0; code == 0 && at < length; at += plan->most) {
      const int64_t end = length - at < plan->most ? length : at + plan->most;
      plan->waiting_since = 0;
      const double before = Now();
      finite &= PackStretch<T>(plan, inputs, at, end);
      if (at == 0 && plan->spoiled) send[0] = NAN;
      if (end == length && !finite && plan->check_finite) send[plan->nonfinite_at] = 1;
      plan->waiting_since = Now();
      packing += plan->waiting_since - before;
      where = "MPI_Allreduce";
      code = plan->allreduce(send + at, result + at, static_cast<int>(end - at), plan->datatype,
                             plan->sum, plan->comm);
    }
    plan->waiting_since = 0;
    plan->spoiled = !finite;
    plan->seconds = Now() - started - packing;
    return code == 0 || FailMpi(plan, where, code);
  }

  // The elements [at, end) of the vector, from the parts that lie there.
  template <typename T>
  bool PackStretch(Plan* plan, Inputs* inputs, int64_t at, int64_t end) {
    T* send = static_cast<T*>(plan->send);
    bool finite = true;
    while (inputs->part < plan->parts) {
      const int64_t start = plan->offsets[inputs->part];
      if (start >= end) break;
      const TF_Tensor* tensor = inputs->tensors[inputs->part];
      const int64_t stop = start + TF_TensorElementCount(tensor);
      const int64_t from = start > at ? start : at, to = stop < end ? stop : end;
      if (from < to) finite &= CopyTensor<T>(tensor, from - start, send + from, to - from);
      if (stop > end) break;
      ++inputs->part;
    }
    return finite;
  }

  // Python looks at the same numbers afterwards and says what was wrong.
  template <typename T>
  bool Check(const Plan* plan) {
    const T* result = static_cast<const T*>(plan->result);
    if (result[plan->one_at] == plan->size && result[plan->nonfinite_at] == 0 &&
        result[plan->samples_at] == plan->samples &&
        result[plan->fingerprint_at] == plan->fingerprint)
      return true;
    return Fail(TF_DATA_LOSS, "the sum is not that of this step");
  }

  // The sums where they lie: every part is aligned, and stays untouched until the next exchange.
  template <typename T>
  bool HandOut(Plan* plan, const Inputs& inputs, TF_DataType type) {
    T* result = static_cast<T*>(plan->result);
    for (int64_t i = 0; i < plan->parts; ++i) {
      const TF_Tensor* input = inputs.tensors[i];
      int64_t shape[kMostAxes];
      const int axes = TF_NumDims(input);
      for (int axis = 0; axis < axes; ++axis) shape[axis] = TF_Dim(input, axis);
      const size_t bytes = TF_TensorElementCount(input) * sizeof(T);
      TF_Tensor* sum = TF_NewTensor(type, shape, axes, result + plan->offsets[i], bytes,
                                    NothingToFree, nullptr);
      TF_SetOutput(context, static_cast<int>(i), sum, status);
      TF_DeleteTensor(sum);
      if (TF_GetCode(status) != TF_OK) return false;
    }
    return true;
  }

  bool Take(Plan* plan, Inputs* inputs) {
    if (TF_NumInputs(context) != plan->parts)
      return Fail(TF_INVALID_ARGUMENT, "the plan has another number of parts");
    inputs->tensors = static_cast<TF_Tensor**>(calloc(plan->parts, sizeof(TF_Tensor*)));
    if (inputs->tensors == nullptr) return Fail(TF_RESOURCE_EXHAUSTED, "out of memory");
    for (int64_t i = 0; i < plan->parts; ++i) {
      TF_GetInput(context, static_cast<int>(i), &inputs->tensors[i], status);
      if (TF_GetCode(status) != TF_OK) return false;
      ++inputs->count;
      if (TF_TensorElementCount(inputs->tensors[i]) > plan->offsets[i + 1] - plan->offsets[i])
        return Fail(TF_INVALID_ARGUMENT, "a part is larger than its place in the plan");
      if (TF_NumDims(inputs->tensors[i]) > kMostAxes)
        return Fail(TF_INVALID_ARGUMENT, "a part has too many axes");
    }
    return true;
  }

  template <typename T>
  bool Run(Plan* plan, TF_DataType type) {
    plan->stage = kStarted;
    Inputs inputs;
    if (!Take(plan, &inputs) || !Hook(plan, kBefore) || !Hook(plan, kReady)) return false;
    if (!PackAndReduce<T>(plan, &inputs)) return false;
    plan->stage = kReduced;
    if (!Check<T>(plan) || !Hook(plan, kAfter) || !HandOut<T>(plan, inputs, type)) return false;
    plan->stage = kDone;
    return true;
  }
};

void* Create(TF_OpKernelConstruction* construction) {
  TF_Status* status = TF_NewStatus();
  Kernel* kernel = static_cast<Kernel*>(calloc(1, sizeof(Kernel)));
  int64_t address = 0;
  TF_OpKernelConstruction_GetAttrInt64(construction, "plan", &address, status);
  if (TF_GetCode(status) == TF_OK)
    TF_OpKernelConstruction_GetAttrType(construction, "U", &kernel->type, status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelConstruction_Failure(construction, status);
  kernel->plan = reinterpret_cast<Plan*>(address);
  TF_DeleteStatus(status);
  return kernel;
}

void Compute(void* opaque, TF_OpKernelContext* context) {
  Kernel* kernel = static_cast<Kernel*>(opaque);
  Call call = {context, TF_NewStatus()};
  const bool done = kernel->type == TF_DOUBLE ? call.Run<double>(kernel->plan, kernel->type)
                                              : call.Run<float>(kernel->plan, kernel->type);
  if (!done) TF_OpKernelContext_Failure(context, call.status);
  TF_DeleteStatus(call.status);
}

void Delete(void* kernel) { free(kernel); }

void InferShapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* shape = TF_NewShapeHandle();
  const int64_t parts = TF_ShapeInferenceContextNumInputs(context);
  for (int i = 0; i < parts && TF_GetCode(status) == TF_OK; ++i) {
    TF_ShapeInferenceContextGetInput(context, i, shape, status);
    if (TF_GetCode(status) == TF_OK) TF_ShapeInferenceContextSetOutput(context, i, shape, status);
  }
  TF_DeleteShapeHandle(shape);
}

// When the library is loaded; what fails here shows as an operation that is missing.
__attribute__((constructor)) void Register() {
  TF_Status* status = TF_NewStatus();
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("MatexExchange");
  TF_OpDefinitionBuilderAddAttr(op, "T: list({float, double, half, bfloat16})");
  TF_OpDefinitionBuilderAddAttr(op, "U: {float, double}");
  TF_OpDefinitionBuilderAddAttr(op, "N: int >= 1");
  TF_OpDefinitionBuilderAddAttr(op, "plan: int");
  TF_OpDefinitionBuilderAddInput(op, "parts: T");
  TF_OpDefinitionBuilderAddOutput(op, "sums: N * U");
  TF_OpDefinitionBuilderSetIsStateful(op, true);
  TF_OpDefinitionBuilderSetShapeInferenceFunction(op, InferShapes);
  TF_RegisterOpDefinition(op, status);
  if (TF_GetCode(status) == TF_OK) {
    TF_KernelBuilder* kernel =
        TF_NewKernelBuilder("MatexExchange", "CPU", Create, Compute, Delete);
    TF_RegisterKernelBuilder("MatexExchange", kernel, status);
  }
  if (TF_GetCode(status) != TF_OK) fprintf(stderr, "matex exchange: %s\n", TF_Message(status));
  TF_DeleteStatus(status);
}

}  // namespace

// The size of Plan, by which Python sees that it and this library speak of the same thing.
extern "C" __attribute__((visibility("default"))) int64_t matex_exchange_plan_bytes() {
  return sizeof(Plan);
}
