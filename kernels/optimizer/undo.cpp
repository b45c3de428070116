#include "kernels/optimizer/undo.hpp"

#include <algorithm>
#include <cstring>

#include "core/math.hpp"

namespace troupe::kernels {
namespace {

constexpr uint64_t alignment = 64;
/// Number of elements that are first copied and then updated while they are still in the cache; at most 22 bytes of
/// each element are read or written.
constexpr uint64_t tile = 16 * 1024;

/// Calls f(memory, bytes of an element, offset in the undo memory) for each array that an update of the piece writes:
/// masters, moments, average, copy. Returns the bytes of undo memory for all of them.
template <class State, class F>
uint64_t for_each_array(const optimizer_piece<State>& piece, F&& f) {
  uint64_t offset = 0;
  const auto array = [&](std::byte* at, uint64_t element_bytes) {
    if (at == nullptr) return;
    f(at, element_bytes, offset);
    offset += core::round_up(piece.count * element_bytes, alignment);
  };
  array(reinterpret_cast<std::byte*>(piece.master), sizeof(State));
  for (State* moment : piece.moments) array(reinterpret_cast<std::byte*>(moment), sizeof(State));
  array(reinterpret_cast<std::byte*>(piece.average), sizeof(State));
  array(piece.copy, core::size_of(piece.copy_dtype));
  return offset;
}

template <class State>
void update_any(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<State>& piece,
                std::byte* undo) {
  for (uint64_t first = 0; first < piece.count; first += tile) {
    const uint64_t count = std::min(tile, piece.count - first);
    for_each_array(piece, [&](const std::byte* at, uint64_t bytes, uint64_t offset) {
      std::memcpy(undo + offset + first * bytes, at + first * bytes, count * bytes);
    });
    update_unchecked(options, step, part_of(piece, first, count));
  }
}

template <class State>
void take_back_any(const optimizer_piece<State>& piece, const std::byte* undo) {
  for_each_array(piece, [&](std::byte* at, uint64_t bytes, uint64_t offset) {
    std::memcpy(at, undo + offset, piece.count * bytes);
  });
}

template <class State>
uint64_t bytes_of(const optimizer_piece<State>& piece) {
  return for_each_array(piece, [](std::byte*, uint64_t, uint64_t) {});
}

}  // namespace

uint64_t undo_bytes(const optimizer_piece<float>& piece) { return bytes_of(piece); }
uint64_t undo_bytes(const optimizer_piece<double>& piece) { return bytes_of(piece); }

void update_keeping(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                    std::byte* undo) {
  update_any(options, step, piece, undo);
}
void update_keeping(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                    std::byte* undo) {
  update_any(options, step, piece, undo);
}

void take_back(const optimizer_piece<float>& piece, const std::byte* undo) { take_back_any(piece, undo); }
void take_back(const optimizer_piece<double>& piece, const std::byte* undo) { take_back_any(piece, undo); }

}  // namespace troupe::kernels
