#include "formats/source/zeros.hpp"

#include <algorithm>
#include <memory>

namespace troupe::formats {
namespace {

class zeros_file final : public storage::input_file {
 public:
  explicit zeros_file(uint64_t bytes) : bytes_(bytes) {}
  [[nodiscard]] uint64_t bytes() const override { return bytes_; }
  [[nodiscard]] core::result<size_t> read_at(uint64_t offset, std::span<std::byte> out) const override {
    const auto n = static_cast<size_t>(std::min<uint64_t>(out.size(), bytes_ - std::min(offset, bytes_)));
    std::fill_n(out.begin(), n, std::byte{0});
    return n;
  }

 private:
  uint64_t bytes_;
};

class zeros_view final : public source_view {
 public:
  explicit zeros_view(uint64_t bytes) : bytes_(bytes) {}
  [[nodiscard]] core::result<std::unique_ptr<storage::input_file>> open(
      storage::file_system& /*files*/) const override {
    return std::make_unique<zeros_file>(bytes_);
  }
  [[nodiscard]] bool is_compressed() const override { return false; }

 private:
  uint64_t bytes_;
};

}  // namespace

uint32_t add_zeros(tensor_source& s, uint64_t bytes) {
  s.files.push_back({.path = s.folder / "zeros", .bytes = bytes, .view = std::make_shared<const zeros_view>(bytes)});
  s.has_digests = false;
  s.save_id.reset();
  return static_cast<uint32_t>(s.files.size() - 1);
}

}  // namespace troupe::formats
