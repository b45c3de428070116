// zlib's stream, member by member, into a scratch file.
#include "data/expand.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "data/scratch_file.hpp"

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

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

core::result<core::mapped_file> expand_gzip(const std::filesystem::path& path, uint64_t max_bytes,
                                            const std::filesystem::path& scratch) {
  auto packed = core::mapped_file::open(path);
  if (!packed) return fail(packed.error());
  auto sink = scratch_file::create(scratch);
  if (!sink) return fail(sink.error());
  inflater in;
  if (!in.ready) return fail(error_kind::limit, fmt::format("no memory to expand '{}'", path.string()));

  const auto wrong = [&](uint64_t offset, const std::string& why) {
    return fail(error_kind::bad_input,
                fmt::format("'{}' is no sound gzip file: {} at byte {}", path.string(), why, offset));
  };
  std::vector<unsigned char> block(expand_block_bytes);
  const auto bytes = packed->bytes();
  uint64_t taken = 0;  // of the packed file
  uint64_t given = 0;  // to the sink
  bool between_members = false;
  for (;;) {
    const auto rest = bytes.subspan(taken);
    if (between_members && all_zero(rest)) break;  // also the plain end; tapes pad with zeros
    if (rest.empty()) return wrong(taken, "it ends in the middle");
    // zlib's interface takes a mutable pointer and only reads
    in.z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(rest.data()));
    const auto offered = static_cast<uInt>(std::min(rest.size(), expand_block_bytes));
    in.z.avail_in = offered;
    in.z.next_out = block.data();
    in.z.avail_out = static_cast<uInt>(block.size());
    between_members = false;
    const int rc = inflate(&in.z, Z_NO_FLUSH);
    taken += offered - in.z.avail_in;
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
      return wrong(taken, in.z.msg != nullptr ? in.z.msg : fmt::format("zlib error {}", rc));
    const size_t produced = block.size() - in.z.avail_out;
    if (produced > max_bytes - given)
      return fail(error_kind::limit, fmt::format("'{}' expands beyond the {} bytes that data.max_bytes leaves it",
                                                 path.string(), max_bytes));
    if (auto ok = sink->append({reinterpret_cast<const std::byte*>(block.data()), produced}); !ok)
      return fail(ok.error().in(path.string()));
    given += produced;
    if (rc == Z_STREAM_END) {
      inflateReset(&in.z);
      between_members = true;
    }
  }
  return core::mapped_file::of(sink->fd(), path.string());
}

}  // namespace troupe::data
