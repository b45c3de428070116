#include "actors/loading/teacher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/source_file.hpp"

namespace troupe::actors {
namespace {

constexpr uint64_t block_bytes = uint64_t{1} << 20;

core::result<void> add_file(const std::filesystem::path& path, storage::digest_stream& to) {
  TROUPE_ASSIGN(const auto file, core::source_file::open(path));
  std::vector<std::byte> block(std::min(block_bytes, file.size()));
  for (uint64_t done = 0; done < file.size(); done += block.size()) {
    block.resize(std::min(block_bytes, file.size() - done));
    TROUPE_TRY(file.read(done, block));
    to.add(block);
  }
  return {};
}

}  // namespace

core::result<formats::teacher_record> teacher_record_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files{folder / "config.json"};
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  if (failed)
    return core::fail(core::error_kind::io, fmt::format("cannot read '{}': {}", folder.string(), failed.message()));
  std::sort(files.begin() + 1, files.end());
  storage::digest_stream all;
  for (const auto& path : files) TROUPE_TRY(add_file(path, all));
  return formats::teacher_record{folder.string(), all.value()};
}

core::result<void> check_teacher(const std::filesystem::path& checkpoint, const formats::teacher_record& saved,
                                 const formats::teacher_record& now) {
  if (saved.digest == now.digest) return {};
  return core::fail(
      core::error_kind::mismatch,
      fmt::format("'{}': its run learned from '{}', digest {}, and model.teacher is another model: '{}', "
                  "digest {}",
                  checkpoint.string(), saved.folder, to_hex(saved.digest), now.folder, to_hex(now.digest)));
}

}  // namespace troupe::actors
