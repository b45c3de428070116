// Decodes the streams of zlib and libzstd, member by member, into a scratch file.
#include "data/expand.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/text.hpp"
#include "data/formats/files.hpp"
#include "data/formats/packed_text.hpp"

namespace troupe::data {
namespace {

/// Result of one round of a decoder: packed bytes read, bytes written, and whether a member of the file is complete.
struct decoded {
  size_t taken = 0, produced = 0;
  bool ends_member = false;
  std::string wrong{};  ///< reason why the packed file is damaged; empty: no damage so far
};

/// Decodes one member after the other. A packed file has one or more members (zstd: frames), each with its own
/// beginning, end and checksum.
class member_decoder {
 public:
  member_decoder() = default;
  member_decoder(const member_decoder&) = delete;
  member_decoder& operator=(const member_decoder&) = delete;
  virtual ~member_decoder() = default;

  virtual decoded decode(std::span<const std::byte> in, std::span<std::byte> out) = 0;
  [[nodiscard]] virtual const char* name() const = 0;
  /// True if zeros may follow a member: tapes pad gzip files with zeros.
  [[nodiscard]] virtual bool allows_padding() const = 0;
};

class gzip_decoder final : public member_decoder {
 public:
  ~gzip_decoder() override {
    if (is_ready_) inflateEnd(&z_);
  }
  [[nodiscard]] bool is_ready() const { return is_ready_; }
  [[nodiscard]] const char* name() const override { return "gzip"; }
  [[nodiscard]] bool allows_padding() const override { return true; }

  decoded decode(std::span<const std::byte> in, std::span<std::byte> out) override {
    // zlib requires a pointer that is not const, but only reads through it.
    z_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
    z_.avail_in = static_cast<uInt>(in.size());
    z_.next_out = reinterpret_cast<Bytef*>(out.data());
    z_.avail_out = static_cast<uInt>(out.size());
    const int rc = inflate(&z_, Z_NO_FLUSH);
    decoded done{in.size() - z_.avail_in, out.size() - z_.avail_out, rc == Z_STREAM_END, {}};
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
      done.wrong = z_.msg != nullptr ? z_.msg : fmt::format("zlib error {}", rc);
    if (done.ends_member) inflateReset(&z_);
    return done;
  }

 private:
  z_stream z_{};
  // 15: largest window; + 16: only streams with a gzip header are accepted.
  bool is_ready_ = inflateInit2(&z_, 15 + 16) == Z_OK;
};

class zstd_decoder final : public member_decoder {
 public:
  [[nodiscard]] bool is_ready() const { return stream_ != nullptr; }
  [[nodiscard]] const char* name() const override { return "zstd"; }
  [[nodiscard]] bool allows_padding() const override { return false; }

  decoded decode(std::span<const std::byte> in, std::span<std::byte> out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const size_t left = ZSTD_decompressStream(stream_.get(), &to, &from);
    decoded done{from.pos, to.pos, left == 0, {}};
    if (ZSTD_isError(left) != 0) done.wrong = ZSTD_getErrorName(left);
    return done;
  }

 private:
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> stream_{ZSTD_createDCtx(), ZSTD_freeDCtx};
};

bool is_packed_by_zstd(const std::filesystem::path& path) { return core::lowered(path.extension().string()) == ".zst"; }

template <class Decoder>
std::unique_ptr<member_decoder> ready_decoder() {
  auto out = std::make_unique<Decoder>();
  if (!out->is_ready()) return nullptr;
  return out;
}

/// Reads a packed file from its beginning to its end, block by block.
class block_reader {
 public:
  explicit block_reader(const core::source_file& file) : file_(file), block_(expand_block_bytes) {}

  /// Returns the unused part of the current block; the next block if none is left; an empty span at the end of the
  /// file.
  core::result<std::span<const std::byte>> rest() {
    if (used_ == filled_) {
      first_ += filled_;
      used_ = 0;
      filled_ = std::min<uint64_t>(block_.size(), file_.size() - first_);
      TROUPE_TRY(file_.read(first_, std::span(block_).first(filled_)));
    }
    return std::span<const std::byte>(block_).subspan(used_, filled_ - used_);
  }
  void use(size_t bytes) { used_ += bytes; }
  [[nodiscard]] uint64_t at() const { return first_ + used_; }

 private:
  const core::source_file& file_;
  std::vector<std::byte> block_;
  uint64_t first_ = 0;
  size_t used_ = 0, filled_ = 0;
};

/// Skips the zeros with which tapes pad files. Returns false if other bytes follow.
core::result<bool> only_zeros_follow(block_reader& in) {
  for (;;) {
    TROUPE_ASSIGN(const auto rest, in.rest());
    if (rest.empty()) return true;
    const auto other = std::find_if(rest.begin(), rest.end(), [](std::byte b) { return b != std::byte{0}; });
    in.use(static_cast<size_t>(other - rest.begin()));
    if (other != rest.end()) return false;
  }
}

}  // namespace

core::result<void> expand_packed(const std::filesystem::path& path, uint64_t max_bytes, scratch_file& sink,
                                 const expand_watch& watch) {
  TROUPE_ASSIGN(const auto packed, core::source_file::open(path));
  const auto decoder = is_packed_by_zstd(path) ? ready_decoder<zstd_decoder>() : ready_decoder<gzip_decoder>();
  if (decoder == nullptr) return fail(error_kind::limit, fmt::format("no memory to expand '{}'", path.string()));

  const auto wrong = [&](uint64_t offset, const std::string& why) {
    return fail(error_kind::bad_input,
                fmt::format("'{}' is not a valid {} file: {} at byte {}", path.string(), decoder->name(), why, offset));
  };
  std::vector<std::byte> block(expand_block_bytes);
  block_reader from(packed);
  uint64_t given = 0;  // number of expanded bytes that were passed to the sink
  bool is_between_members = false, may_hold_more = false;
  for (;;) {
    if (watch && !watch(from.at(), packed.size()))
      return fail(error_kind::stopped, fmt::format("stopped while '{}' was expanded", path.string()));
    const uint64_t member = from.at();
    if (is_between_members && decoder->allows_padding()) {
      TROUPE_ASSIGN(const auto over, only_zeros_follow(from));
      if (over) break;
      if (from.at() != member) return wrong(member, "something other than zeros follows its end");
    }
    TROUPE_ASSIGN(const auto rest, from.rest());
    if (rest.empty() && is_between_members) break;
    if (rest.empty() && !may_hold_more) return wrong(from.at(), "it ends in the middle");
    const decoded done = decoder->decode(rest, block);
    from.use(done.taken);
    if (!done.wrong.empty()) return wrong(from.at(), done.wrong);
    if (done.produced > max_bytes - given)
      return fail(error_kind::limit,
                  fmt::format("'{}' expands beyond the {} bytes that remain of data.max_bytes (--max-bytes): raise it",
                              path.string(), max_bytes));
    if (auto ok = sink.append(std::span<const std::byte>(block).first(done.produced)); !ok)
      return fail(ok.error().in(path.string()));
    given += done.produced;
    is_between_members = done.ends_member;
    may_hold_more = done.produced == block.size();
  }
  return {};
}

core::result<core::source_file> open_expanded(const std::filesystem::path& path, uint64_t max_bytes,
                                              scratch_file& scratch, const std::filesystem::path& folder,
                                              const expand_watch& watch) {
  const auto looked_at = [&](core::result<core::source_file> file) {
    if (!file) return file;
    if (auto ok = refuse_other_content(path, *file); !ok) return core::result<core::source_file>(fail(ok.error()));
    return file;
  };
  if (!is_packed(path)) {
    TROUPE_ASSIGN(auto file, core::source_file::open(path));
    const auto kind = kind_of(path);
    if ((kind == source_kind::text || kind == source_kind::json_lines) && file.size() > max_bytes)
      return fail(
          error_kind::limit,
          fmt::format("'{}' has {} bytes, more than the {} that remain of data.max_bytes (--max-bytes): raise it",
                      path.string(), file.size(), max_bytes));
    return looked_at(std::move(file));
  }
  if (!scratch.is_open()) {
    TROUPE_ASSIGN(auto made, scratch_file::create(folder));
    scratch = std::move(made);
  }
  const uint64_t begin = scratch.bytes();
  TROUPE_TRY(expand_packed(path, max_bytes, scratch, watch));
  return looked_at(scratch.content(path.string(), begin));
}

core::result<core::source_file> open_sample_file(const std::filesystem::path& path, uint64_t max_bytes,
                                                 scratch_file& scratch, const std::filesystem::path& folder,
                                                 const expand_watch& watch) {
  if (kind_of(path) == source_kind::array && !is_packed(path)) return core::source_file::open(path);
  return open_expanded(path, max_bytes, scratch, folder, watch);
}

}  // namespace troupe::data
