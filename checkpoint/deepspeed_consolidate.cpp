// pread, widen, write.
#include "checkpoint/deepspeed_consolidate.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <map>

#include "checkpoint/safetensors_header.hpp"
#include "core/mapped_file.hpp"
#include "core/tensor_view.hpp"

namespace troupe::checkpoint {

using core::dtype;
using core::error_kind;
using core::fail;

namespace {

/// IEEE 754 binary16 to binary32: exact.
uint32_t widened(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t exponent = half >> 10 & 0x1FU, mantissa = half & 0x3FFU;
  if (exponent == 0x1F) return sign | 0x7F800000U | mantissa << 13;
  if (exponent != 0) return sign | (exponent + 112) << 23 | mantissa << 13;
  const float small = static_cast<float>(mantissa) * 0x1p-24F;
  return sign | std::bit_cast<uint32_t>(small);
}

template <class Stored, class Convert>
void each(std::span<const std::byte> in, std::span<std::byte> out, Convert convert) {
  for (size_t i = 0; i < out.size() / 4; ++i) {
    Stored stored;
    std::memcpy(&stored, in.data() + i * sizeof(Stored), sizeof(Stored));
    const uint32_t bits = convert(stored);
    std::memcpy(out.data() + i * 4, &bits, 4);
  }
}

bool is_floating(dtype type) {
  return type == dtype::f64 || type == dtype::f32 || type == dtype::bf16 || type == dtype::f16;
}

}  // namespace

void widen_to_fp32(dtype type, std::span<const std::byte> in, std::span<std::byte> out) {
  switch (type) {
    case dtype::f32:
      std::memcpy(out.data(), in.data(), out.size());
      return;
    case dtype::bf16:
      return each<uint16_t>(in, out, [](uint16_t bits) { return static_cast<uint32_t>(bits) << 16; });
    case dtype::f16:
      return each<uint16_t>(in, out, widened);
    case dtype::f64:
      return each<double>(in, out, [](double n) { return std::bit_cast<uint32_t>(static_cast<float>(n)); });
    default:
      assert(false && "callers widen floating types only");
  }
}

piece_reader::~piece_reader() { close_all(); }

void piece_reader::close_all() {
  for (int& fd : open_)
    if (fd >= 0) ::close(std::exchange(fd, -1));
  open_count_ = 0;
}

core::result<int> piece_reader::opened(uint32_t file) {
  if (open_[file] >= 0) return open_[file];
  if (open_count_ >= max_open_shards) close_all();
  const int fd = ::open(index_.files[file].c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return fail(error_kind::io,
                fmt::format("cannot read '{}': {}", index_.files[file].string(), core::system_message(errno)));
  ++open_count_;
  return open_[file] = fd;
}

core::result<void> piece_reader::read(const stored_state& state, uint64_t offset_bytes, std::span<std::byte> out) {
  for (const auto& piece : state.pieces) {
    if (out.empty()) return {};
    if (offset_bytes >= piece.bytes) {
      offset_bytes -= piece.bytes;
      continue;
    }
    const auto fd = opened(piece.file);
    if (!fd) return fail(fd.error());
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(out.size(), piece.bytes - offset_bytes));
    for (size_t done = 0; done < wanted;) {
      const auto n =
          ::pread(*fd, out.data() + done, wanted - done, static_cast<off_t>(piece.begin + offset_bytes + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0)
        return fail(error_kind::io, fmt::format("cannot read '{}': {}", index_.files[piece.file].string(),
                                                n < 0 ? core::system_message(errno) : "it has become shorter"));
      done += static_cast<size_t>(n);
    }
    out = out.subspan(wanted);
    offset_bytes = 0;
  }
  if (!out.empty()) return fail(error_kind::bug, "more bytes of a tensor are asked for than its pieces have");
  return {};
}

core::result<void> consolidate_to_fp32(const deepspeed_index& index, const std::filesystem::path& folder,
                                       const consolidate_options& options) {
  piece_reader reader(index);
  std::vector<std::byte> stored;
  std::map<std::string_view, const deepspeed_tensor*> by_name;
  for (const auto& t : index.tensors) by_name.emplace(t.name, &t);
  std::vector<tensor_to_write> all;
  for (const auto& t : index.tensors) {
    const auto owner = t.role == deepspeed_role::shared ? by_name.find(t.owner) : by_name.find(t.name);
    if (owner == by_name.end()) return fail(error_kind::bug, "a shared parameter has no owner");
    const auto& from = *owner->second;
    const bool frozen = from.role == deepspeed_role::frozen;
    if (frozen && options.exclude_frozen) continue;
    const auto* state = from.state(from.role == deepspeed_role::trainable ? "fp32" : "weight");
    if (state == nullptr)
      return fail(error_kind::bad_input, fmt::format("parameter '{}' has no stored weight", shown(from.name)));
    const dtype written = frozen || !is_floating(state->type) ? state->type : dtype::f32;
    const uint64_t wide = core::size_of(written), narrow = core::size_of(state->type);
    auto source = [&reader, &stored, state, written, wide, narrow](uint64_t at,
                                                                   std::span<std::byte> out) -> core::result<void> {
      if (state->type == written) return reader.read(*state, at, out);
      const size_t bytes = out.size() / wide * narrow;
      if (stored.size() < bytes) stored.resize(bytes);
      if (auto ok = reader.read(*state, at / wide * narrow, std::span(stored).first(bytes)); !ok) return ok;
      widen_to_fp32(state->type, stored, out);
      return {};
    };
    all.push_back({t.name, written, t.shape, {}, std::move(source)});
  }
  return write_weights_folder(folder, all, options.max_shard_bytes);
}

}  // namespace troupe::checkpoint
