// zlib's stream, member by member, into a scratch file.
#include "data/expand.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "data/formats/files.hpp"
#include "data/formats/packed_text.hpp"

namespace troupe::data {
namespace {

using core::error_kind;
using core::fail;

/// Owns the z_stream; only gzip framing is accepted.
struct inflater {
  z_stream z{};
  bool ready = inflateInit2(&z, 15 + 16) == Z_OK;
  inflater() = default;
  inflater(const inflater&) = delete;
  inflater& operator=(const inflater&) = delete;
  ~inflater() {
    if (ready) inflateEnd(&z);
  }
};

/// A file's bytes in blocks, one after the other.
class block_reader {
 public:
  explicit block_reader(const core::source_file& file) : file_(file), block_(expand_block_bytes) {}

  /// The rest of the block in hand; the next block where none is left, empty at the file's end.
  core::result<std::span<const std::byte>> rest() {
    if (used_ == filled_) {
      first_ += filled_;
      used_ = 0;
      filled_ = std::min<uint64_t>(block_.size(), file_.size() - first_);
      if (auto ok = file_.read(first_, std::span(block_).first(filled_)); !ok) return fail(ok.error());
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

/// Passes over zeros: tapes pad with them. False where anything else follows.
core::result<bool> only_zeros_follow(block_reader& in) {
  for (;;) {
    const auto rest = in.rest();
    if (!rest) return fail(rest.error());
    if (rest->empty()) return true;
    const auto other = std::find_if(rest->begin(), rest->end(), [](std::byte b) { return b != std::byte{0}; });
    in.use(static_cast<size_t>(other - rest->begin()));
    if (other != rest->end()) return false;
  }
}

}  // namespace

core::result<void> expand_gzip(const std::filesystem::path& path, uint64_t max_bytes, scratch_file& sink,
                               const expand_watch& watch) {
  const auto packed = core::source_file::open(path);
  if (!packed) return fail(packed.error());
  inflater in;
  if (!in.ready) return fail(error_kind::limit, fmt::format("no memory to expand '{}'", path.string()));

  const auto wrong = [&](uint64_t offset, const std::string& why) {
    return fail(error_kind::bad_input,
                fmt::format("'{}' is no sound gzip file: {} at byte {}", path.string(), why, offset));
  };
  std::vector<unsigned char> block(expand_block_bytes);
  block_reader from(*packed);
  uint64_t given = 0;  // to the sink
  bool between_members = false;
  for (;;) {
    if (watch && !watch(from.at(), packed->size()))
      return fail(error_kind::stopped, fmt::format("stopped while '{}' was expanded", path.string()));
    const uint64_t member = from.at();
    if (between_members) {
      const auto over = only_zeros_follow(from);
      if (!over) return fail(over.error());
      if (*over) break;
      if (from.at() != member) return wrong(member, "something else than zeros follows its end");
    }
    const auto rest = from.rest();
    if (!rest) return fail(rest.error());
    if (rest->empty()) return wrong(from.at(), "it ends in the middle");
    // zlib's interface takes a mutable pointer and only reads
    in.z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(rest->data()));
    in.z.avail_in = static_cast<uInt>(rest->size());
    in.z.next_out = block.data();
    in.z.avail_out = static_cast<uInt>(block.size());
    between_members = false;
    const int rc = inflate(&in.z, Z_NO_FLUSH);
    from.use(rest->size() - in.z.avail_in);
    const uint64_t taken = from.at();
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
      return wrong(taken, in.z.msg != nullptr ? in.z.msg : fmt::format("zlib error {}", rc));
    const size_t produced = block.size() - in.z.avail_out;
    if (produced > max_bytes - given)
      return fail(error_kind::limit, fmt::format("'{}' expands beyond the {} bytes that data.max_bytes leaves it",
                                                 path.string(), max_bytes));
    if (auto ok = sink.append({reinterpret_cast<const std::byte*>(block.data()), produced}); !ok)
      return fail(ok.error().in(path.string()));
    given += produced;
    if (rc == Z_STREAM_END) {
      inflateReset(&in.z);
      between_members = true;
    }
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
  if (!is_packed(path)) return looked_at(core::source_file::open(path));
  if (!scratch.is_open()) {
    auto made = scratch_file::create(folder);
    if (!made) return fail(made.error());
    scratch = std::move(*made);
  }
  const uint64_t begin = scratch.bytes();
  if (auto ok = expand_gzip(path, max_bytes, scratch, watch); !ok) return fail(ok.error());
  return looked_at(scratch.content(path.string(), begin));
}

}  // namespace troupe::data
