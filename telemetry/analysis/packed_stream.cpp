#include "telemetry/analysis/packed_stream.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <span>
#include <utility>

namespace troupe::telemetry {

struct packed_stream::decoder {
  z_stream z{};
  bool is_ready = inflateInit2(&z, 15 + 16) == Z_OK;  // 15: the largest window; + 16: a gzip header is required
  bool between_members = false;                       // true: a member has ended, and another one may follow
  decoder() = default;
  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;
  ~decoder() {
    if (is_ready) inflateEnd(&z);
  }
};

packed_stream::packed_stream(core::source_file file) : file_(std::move(file)), text_(block_bytes) {}
packed_stream::~packed_stream() = default;

core::result<std::unique_ptr<packed_stream>> packed_stream::open(const std::filesystem::path& path) {
  TROUPE_ASSIGN(auto file, core::source_file::open(path));
  std::unique_ptr<packed_stream> out(new packed_stream(std::move(file)));
  std::array<unsigned char, 2> head{};
  if (out->file_.size() >= head.size()) TROUPE_TRY(out->file_.read(0, std::as_writable_bytes(std::span(head))));
  if (head[0] == 0x1F && head[1] == 0x8B) {
    out->decoder_ = std::make_unique<decoder>();
    out->packed_.resize(block_bytes);
    if (!out->decoder_->is_ready)
      return fail(error_kind::limit, fmt::format("no memory to unpack '{}'", path.string()));
  }
  return out;
}

core::result<size_t> packed_stream::next_plain(char* out, size_t bytes) {
  const auto count = static_cast<size_t>(std::min<uint64_t>(bytes, file_.size() - offset_));
  TROUPE_TRY(file_.read(offset_, std::as_writable_bytes(std::span(out, count))));
  offset_ += count;
  return count;
}

core::result<size_t> packed_stream::next_unpacked() {
  auto& z = decoder_->z;
  const auto damaged = [&](const std::string& why) {
    return core::refused(
        fmt::format("'{}' is not a valid gzip file: {} at byte {}", file_.name(), why, offset_ - z.avail_in));
  };
  for (;;) {
    if (z.avail_in == 0) {
      TROUPE_ASSIGN(const size_t count, next_plain(packed_.data(), packed_.size()));
      if (count == 0 && decoder_->between_members) return size_t{0};
      if (count == 0) return damaged("it is truncated");
      z.next_in = reinterpret_cast<Bytef*>(packed_.data());
      z.avail_in = static_cast<uInt>(count);
    }
    decoder_->between_members = false;
    z.next_out = reinterpret_cast<Bytef*>(text_.data());
    z.avail_out = static_cast<uInt>(text_.size());
    const int rc = inflate(&z, Z_NO_FLUSH);
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
      return damaged(z.msg != nullptr ? z.msg : fmt::format("zlib error {}", rc));
    if (rc == Z_STREAM_END) {
      inflateReset(&z);
      decoder_->between_members = true;
    }
    if (const size_t made = text_.size() - z.avail_out; made > 0) return made;
  }
}

packed_stream::int_type packed_stream::underflow() {
  if (fault_) return traits_type::eof();
  auto count = decoder_ ? next_unpacked() : next_plain(text_.data(), text_.size());
  if (!count) fault_ = std::move(count).error();
  if (fault_ || *count == 0) return traits_type::eof();
  setg(text_.data(), text_.data(), text_.data() + *count);
  return traits_type::to_int_type(text_.front());
}

}  // namespace troupe::telemetry
