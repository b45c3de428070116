// File by file: reads, then the checks of what they brought.
#include "checkpoint/native_read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checkpoint/native_shard.hpp"

namespace troupe::checkpoint {

using core::error_kind;
using core::fail;

core::result<read_report> read_pieces(file_system& files, const checkpoint_folder& from, const load_plan& plan,
                                      std::span<std::byte> destination, const read_options& options) {
  if (destination.size() < plan.destination_bytes)
    return fail(error_kind::bug,
                fmt::format("{} bytes are to be loaded into memory of {}", plan.destination_bytes, destination.size()));
  const manifest& m = from.content;
  read_report out;
  auto check = plan.checks.begin();
  for (auto read = plan.reads.begin(); read != plan.reads.end();) {
    const uint32_t number = read->file;
    const auto path = from.folder / m.files[number].name;
    const auto file = files.open(path);
    if (!file) return fail(file.error());
    if (auto ok = check_shard(**file, path, m.files[number], m.save_id); !ok) return fail(ok.error());
    for (; read != plan.reads.end() && read->file == number; ++read) {
      for (uint64_t done = 0; done < read->bytes;) {
        const auto n = static_cast<size_t>(std::min<uint64_t>(read->bytes - done, read_block_bytes));
        const auto into = destination.subspan(static_cast<size_t>(read->destination_bytes + done), n);
        if (auto ok = read_exactly(**file, path, read->offset_bytes + done, into); !ok) return fail(ok.error());
        done += n;
      }
      out.bytes += read->bytes;
    }
    for (; options.verify && check != plan.checks.end() && check->range.file == number; ++check) {
      const auto& r = check->range;
      const auto got = destination.subspan(static_cast<size_t>(r.destination_bytes), static_cast<size_t>(r.bytes));
      if (digest_of(got) != check->digest)
        return fail(error_kind::bad_input,
                    fmt::format("'{}': the {} bytes at byte {}, of tensor {}, do not have their digest", path.string(),
                                r.bytes, r.offset_bytes, shown(m.tensors[check->tensor])));
      out.verified_bytes += r.bytes;
    }
  }
  return out;
}

}  // namespace troupe::checkpoint
