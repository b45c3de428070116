// One member of a group within a process, as a communicator. Owns its share of the group; leaves all work to the group.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "fabric/communicator.hpp"

namespace troupe::fabric {

/// Passes the calls of a communicator to its group, together with the member's rank.
template <class Group>
class member_of final : public communicator {
 public:
  member_of(std::shared_ptr<Group> group, uint32_t rank) : group_(std::move(group)), rank_(rank) {}
  ~member_of() override { group_->leave(rank_); }
  member_of(const member_of&) = delete;
  member_of& operator=(const member_of&) = delete;

  [[nodiscard]] uint32_t rank() const override { return rank_; }
  [[nodiscard]] uint32_t size() const override { return group_->size(); }
  core::result<void> post(const request& r) override { return group_->post(rank_, r); }
  core::result<progress> advance(uint64_t sequence) override { return group_->advance(rank_, sequence); }
  [[nodiscard]] std::vector<uint32_t> missing(uint64_t sequence) const override {
    return group_->missing(rank_, sequence);
  }
  void abort(const core::error& why) override { group_->abort(rank_, why); }

 private:
  std::shared_ptr<Group> group_;
  uint32_t rank_;
};

}  // namespace troupe::fabric
