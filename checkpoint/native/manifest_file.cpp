// Writes and reads manifest.json, and adds its path to errors.
#include "checkpoint/native/manifest_file.hpp"

#include <fmt/format.h>

#include <utility>

#include "checkpoint/native/manifest_text.hpp"
#include "formats/source/shard_header.hpp"

namespace troupe::checkpoint {

core::result<storage::digest128> write_manifest(storage::file_system& files, const std::filesystem::path& folder,
                                                const manifest& m) {
  const auto path = folder / manifest_file_name;
  const auto text = format_manifest(m);
  if (!text) return fail(text.error().in(fmt::format("cannot write '{}'", path.string())));
  TROUPE_ASSIGN(auto file, files.create(path));
  TROUPE_TRY(file->write(std::as_bytes(std::span(*text))));
  TROUPE_TRY(file->sync());
  return seal_of(*text);
}

core::result<checkpoint_folder> read_manifest(storage::file_system& files, const std::filesystem::path& folder) {
  const auto path = folder / manifest_file_name;
  const auto text = storage::read_small_file(files, path, max_manifest_bytes);
  if (!text) return fail(text.error().in(fmt::format("'{}' is not a checkpoint", folder.string())));
  auto content = parse_manifest(*text);
  if (!content) return fail(content.error().in(fmt::format("'{}'", path.string())));
  TROUPE_ASSIGN(const auto seal, seal_of(*text));
  return checkpoint_folder{folder, std::move(*content), seal};
}

core::result<checkpoint_folder> open_folder(storage::file_system& files, const std::filesystem::path& folder) {
  auto out = read_manifest(files, folder);
  if (!out) return out;
  for (const auto& f : out->content.files) {
    const auto path = folder / f.name;
    TROUPE_ASSIGN(const auto file, files.open(path));
    TROUPE_TRY(formats::check_shard(*file, path, f, out->content.save_id));
  }
  return out;
}

}  // namespace troupe::checkpoint
