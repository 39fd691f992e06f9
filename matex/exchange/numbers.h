// Numbers of fewer bits: as TensorFlow computes with them, and as they travel between hosts.
//
// A loop over many of them has no branch, so that the compiler can take several at a time.

#ifndef MATEX_EXCHANGE_NUMBERS_H_
#define MATEX_EXCHANGE_NUMBERS_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace {

inline uint32_t Bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

inline float OfBits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
  // Below the normal numbers, all are multiples of 2^-24.
  const uint32_t small = Bits(static_cast<float>(static_cast<int32_t>(rest)) * 0x1p-24f);
  const uint32_t normal = (rest << 13) + (112u << 23);
  const uint32_t special = 0x7f800000u | (rest & 0x3ffu) << 13;  // infinity and NaN
  return OfBits(sign | (rest >= 0x7c00u ? special : rest >= 0x0400u ? normal : small));
}

inline float Bfloat16ToFloat(uint16_t narrow) {
  return OfBits(static_cast<uint32_t>(narrow) << 16);
}

// The nearest of 16 bits, ties to even; a number that is too large is cut.
inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = Bits(value), sign = (bits >> 16) & 0x8000u;
  uint32_t rest = bits & 0x7fffffffu;
  const bool is_number = rest < 0x7f800000u;
  const uint32_t special = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;  // NaN or infinity
  rest = rest > 0x477fe000u ? 0x477fe000u : rest;  // 65504
  const uint32_t normal = (rest - (112u << 23) + 0xfffu + ((rest >> 13) & 1u)) >> 13;
  // Adding 0.5 leaves multiples of 2^-24 in the last bits.
  const uint32_t small = Bits(OfBits(rest) + 0.5f) - Bits(0.5f);
  return static_cast<uint16_t>(sign | (!is_number ? special : rest < 0x38800000u ? small : normal));
}

inline uint16_t FloatToBfloat16(float value) {
  const uint32_t bits = Bits(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

// What travels between hosts. The numbers are those that native.py knows.
enum Codec { kPlain = 0, kHalf = 1, kBfloat16 = 2, kInt8 = 3 };

const int64_t kBlock = 256;  // numbers that share a scale in 8 bits: BLOCK of route.py

inline int64_t Blocks(int64_t count) { return (count + kBlock - 1) / kBlock; }

template <typename T>
int64_t EncodedBytes(int codec, int64_t count) {
  switch (codec) {
    case kPlain: return count * static_cast<int64_t>(sizeof(T));
    case kInt8: return 4 * Blocks(count) + count;
    default: return 2 * count;
  }
}

// What rounding took of a number; nothing of one that is not finite.
inline float Rest(float wanted, float sent) {
  const float rest = wanted - sent;
  return (Bits(rest) & 0x7f800000u) == 0x7f800000u ? 0.0f : rest;
}

template <typename T, typename Narrow, typename Widen>
void Encode16(const T* __restrict values, uint16_t* __restrict codes, float* __restrict taken,
              int64_t count, Narrow narrow, Widen widen) {
  for (int64_t i = 0; i < count; ++i) {
    const float wanted = static_cast<float>(values[i]);
    codes[i] = narrow(wanted);
    taken[i] = Rest(wanted, widen(codes[i]));
  }
}

template <typename T>
void Encode8(const T* __restrict values, char* codes, float* __restrict taken, int64_t count) {
  char* scales = codes;
  int8_t* numbers = reinterpret_cast<int8_t*>(codes + 4 * Blocks(count));
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t size = count - at < kBlock ? count - at : kBlock;
    uint32_t most = 0;  // of the absolute values: their bits are ordered as they are
    for (int64_t i = 0; i < size; ++i) {
      const uint32_t bits = Bits(static_cast<float>(values[at + i])) & 0x7fffffffu;
      most = bits > most ? bits : most;
    }
    const float scale = OfBits(most) / 127.0f, inverse = scale > 0 ? 1.0f / scale : 0.0f;
    memcpy(scales + at / kBlock * 4, &scale, 4);
    for (int64_t i = 0; i < size; ++i) {
      const float wanted = static_cast<float>(values[at + i]);
      // Adding 1.5 * 2^23 rounds to a whole number, and leaves it in the last bits.
      const int32_t number = static_cast<int32_t>(Bits(wanted * inverse + 12582912.0f)) - 0x4b400000;
      const int32_t high = number > 127 ? 127 : number, code = high < -127 ? -127 : high;
      numbers[at + i] = static_cast<int8_t>(code);
      taken[at + i] = Rest(wanted, scale * static_cast<float>(code));
    }
  }
}

// Encodes `count` values, and writes what that takes from them.
template <typename T>
void Encode(int codec, const T* values, char* codes, float* taken, int64_t count) {
  uint16_t* narrow = reinterpret_cast<uint16_t*>(codes);
  if (codec == kHalf) Encode16(values, narrow, taken, count, FloatToHalf, HalfToFloat);
  if (codec == kBfloat16) Encode16(values, narrow, taken, count, FloatToBfloat16, Bfloat16ToFloat);
  if (codec == kInt8) Encode8(values, codes, taken, count);
}

// Writes `count` decoded values, or adds them to those that are there.
template <bool kAdd, typename T, typename From, typename Widen>
void Decode16(const From* __restrict codes, T* __restrict values, int64_t count, Widen widen) {
  for (int64_t i = 0; i < count; ++i)
    values[i] = kAdd ? values[i] + static_cast<T>(widen(codes[i])) : static_cast<T>(widen(codes[i]));
}

template <bool kAdd, typename T>
void Decode(int codec, const char* codes, T* __restrict values, int64_t count) {
  const uint16_t* narrow = reinterpret_cast<const uint16_t*>(codes);
  switch (codec) {
    case kPlain:
      return Decode16<kAdd>(reinterpret_cast<const T*>(codes), values, count,
                            [](T value) { return value; });
    case kHalf: return Decode16<kAdd>(narrow, values, count, HalfToFloat);
    case kBfloat16: return Decode16<kAdd>(narrow, values, count, Bfloat16ToFloat);
    default: break;
  }
  const int8_t* numbers = reinterpret_cast<const int8_t*>(codes + 4 * Blocks(count));
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t size = count - at < kBlock ? count - at : kBlock;
    float scale;
    memcpy(&scale, codes + at / kBlock * 4, 4);
    for (int64_t i = at; i < at + size; ++i) {
      const T value = static_cast<T>(scale * static_cast<float>(numbers[i]));
      values[i] = kAdd ? values[i] + value : value;
    }
  }
}

}  // namespace

#endif  // MATEX_EXCHANGE_NUMBERS_H_
