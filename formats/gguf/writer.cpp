#include "formats/gguf/writer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/math.hpp"
#include "core/text.hpp"

namespace troupe::formats {

gguf_writer::gguf_writer(storage::streamed_file out, std::vector<gguf_tensor> tensors, uint64_t alignment,
                         uint64_t header_bytes)
    : out_(std::move(out)), tensors_(std::move(tensors)), alignment_(alignment), bytes_(header_bytes) {
  for (const auto& t : tensors_) bytes_ += core::round_up(t.bytes(), alignment_);
  if (!tensors_.empty()) left_bytes_ = tensors_.front().bytes();
}

core::result<gguf_writer> gguf_writer::create(const std::filesystem::path& target, const gguf_metadata& metadata,
                                              std::vector<gguf_tensor> tensors) {
  const auto header = format_gguf_header(metadata, tensors);
  if (!header) return fail(header.error().in(fmt::format("cannot write '{}'", target.string())));
  TROUPE_ASSIGN(auto out, storage::streamed_file::create(target));
  TROUPE_TRY(out.write(*header));
  return gguf_writer(std::move(out), std::move(tensors), *alignment_of(metadata), header->size());
}

core::result<void> gguf_writer::pad() {
  const uint64_t bytes = tensors_[at_].bytes();
  const std::vector<std::byte> zeros(static_cast<size_t>(core::round_up(bytes, alignment_) - bytes));
  TROUPE_TRY(out_.write(zeros));
  ++at_;
  left_bytes_ = at_ < tensors_.size() ? tensors_[at_].bytes() : 0;
  return {};
}

core::result<void> gguf_writer::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (at_ == tensors_.size())
      return fail(error_kind::bug, fmt::format("{} bytes after the last tensor", bytes.size()));
    const auto n = static_cast<size_t>(std::min<uint64_t>(bytes.size(), left_bytes_));
    TROUPE_TRY(out_.write(bytes.first(n)));
    bytes = bytes.subspan(n);
    left_bytes_ -= n;
    if (left_bytes_ == 0) TROUPE_TRY(pad());
  }
  return {};
}

core::result<void> gguf_writer::commit() {
  if (at_ != tensors_.size())
    return fail(error_kind::bug,
                fmt::format("tensor '{}' lacks {} bytes", core::shown(tensors_[at_].name), left_bytes_));
  return out_.commit();
}

}  // namespace troupe::formats
