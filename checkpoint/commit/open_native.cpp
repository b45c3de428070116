#include "checkpoint/commit/open_native.hpp"

#include <memory>
#include <utility>

#include "checkpoint/native/native_source.hpp"
#include "formats/source/shard_header.hpp"

namespace troupe::checkpoint {
namespace {

class file_elsewhere final : public formats::source_view {
 public:
  file_elsewhere(storage::file_system& files, std::filesystem::path path, uint64_t bytes, storage::digest128 save_id)
      : files_(files), path_(std::move(path)), bytes_(bytes), save_id_(save_id) {}

  [[nodiscard]] core::result<std::unique_ptr<storage::input_file>> open(storage::file_system&) const override {
    auto file = files_.open(path_);
    if (!file) return file;
    TROUPE_TRY(formats::check_shard(**file, path_, {{}, bytes_}, save_id_));
    return file;
  }
  [[nodiscard]] bool is_compressed() const override { return false; }

 private:
  storage::file_system& files_;
  std::filesystem::path path_;
  uint64_t bytes_;
  storage::digest128 save_id_;
};

}  // namespace

core::result<formats::tensor_source> open_native(storage::file_system& files, const std::filesystem::path& path,
                                                 const open_options& options) {
  TROUPE_ASSIGN(const auto found, open_checkpoint(files, path, options));
  auto out = source_of(found);
  for (auto& f : out.files) f.view = std::make_shared<file_elsewhere>(files, f.path, f.bytes, found.content.save_id);
  return out;
}

}  // namespace troupe::checkpoint
