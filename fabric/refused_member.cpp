#include "fabric/refused_member.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace troupe::fabric {
namespace {

class without_group final : public communicator {
 public:
  without_group(uint32_t rank, uint32_t size, core::error why) : rank_(rank), size_(size), why_(std::move(why)) {}

  [[nodiscard]] uint32_t rank() const override { return rank_; }
  [[nodiscard]] uint32_t size() const override { return size_; }
  core::result<void> post(const request& /*r*/) override { return core::fail(why_); }
  core::result<progress> advance(uint64_t /*sequence*/) override { return core::fail(why_); }
  [[nodiscard]] std::vector<uint32_t> missing(uint64_t /*sequence*/) const override { return {}; }
  void abort(const core::error& /*why*/) override {}

 private:
  uint32_t rank_, size_;
  core::error why_;
};

}  // namespace

std::optional<core::error> wrong_size(uint32_t size, const std::vector<uint32_t>& ranks) {
  if (size == 0) return core::error{core::error_kind::bad_input, "a communicator of at least one member was wanted"};
  if (ranks.empty() || ranks.size() == size) return std::nullopt;
  return core::error{
      core::error_kind::bad_input,
      fmt::format("a communicator of {} members: wanted as many names of ranks, got {}", size, ranks.size())};
}

std::optional<core::error> wrong_rank(uint32_t rank, uint32_t size, bool has_joined) {
  const std::string where = fmt::format("a communicator of {} members: ", size);
  if (rank >= size)
    return core::error{core::error_kind::bad_input,
                       fmt::format("{}wanted a member below {}, got {}", where, size, rank)};
  if (has_joined)
    return core::error{core::error_kind::bad_input, fmt::format("{}member {} has joined before", where, rank)};
  return std::nullopt;
}

std::unique_ptr<communicator> refused_member(uint32_t rank, uint32_t size, core::error why) {
  return std::make_unique<without_group>(rank, size, std::move(why));
}

}  // namespace troupe::fabric
