// Fakes an etcd server in memory: the leader key of a job and its lease, with a clock that tests advance. Owns the
// state that all simulated hosts share, and whether the server answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "net/leader_store.hpp"

namespace troupe::tests {

class fake_etcd {
 public:
  struct state {
    int64_t now_s = 0, ends_s = 0;  ///< current time, and time at which the lease expires
    uint64_t lease = 0, leases = 0;
    std::optional<std::string> value;
    std::optional<int> over;
    bool answers = true;

    void look() {
      if (value && lease != 0 && now_s >= ends_s) value.reset();
    }
  };

  /// Returns the store of one host, with a lease of `lease_s` seconds.
  [[nodiscard]] std::unique_ptr<net::leader_store> open(uint32_t lease_s) const {
    return std::make_unique<view>(state_, lease_s);
  }
  void pass(int64_t seconds) const { state_->now_s += seconds; }
  void answer(bool does) const { state_->answers = does; }
  /// Writes the key without a lease, as another program might.
  void write(const std::string& value) const {
    state_->value = value;
    state_->lease = 0;
  }

 private:
  class view final : public net::leader_store {
   public:
    view(std::shared_ptr<state> of, uint32_t lease_s) : of_(std::move(of)), lease_s_(lease_s) {}

    core::result<standing> take(const net::lead& me, part of) override {
      auto now = read();
      if (!now || now->who || (now->over && of == part::continues)) return now;
      of_->value = as_text(me);
      of_->over.reset();
      of_->lease = lease_ = ++of_->leases;
      of_->ends_s = of_->now_s + lease_s_;
      return standing{me, std::nullopt, true};
    }
    core::result<bool> refresh() override {
      if (!of_->answers) return silent();
      of_->look();
      if (lease_ == 0 || !of_->value || of_->lease != lease_) {
        lease_ = 0;
        return false;
      }
      of_->ends_s = of_->now_s + lease_s_;
      return true;
    }
    core::result<standing> read() override {
      if (!of_->answers) return silent();
      of_->look();
      standing out{std::nullopt, of_->over, false};
      if (!of_->value) return out;
      out.who = net::read_lead(*of_->value);
      if (!out.who)
        return core::fail(core::error_kind::mismatch, "wanted the leader of a job of Troupe, got " + *of_->value);
      return out;
    }
    core::result<void> give_up(std::optional<int> over) override {
      if (!of_->answers) return silent();
      if (lease_ == 0) return {};
      of_->look();
      if (over && of_->value && of_->lease == lease_) of_->over = over;
      if (of_->lease == lease_) of_->value.reset();
      lease_ = 0;
      return {};
    }

   private:
    static tl::unexpected<core::error> silent() { return core::fail(core::error_kind::peer_lost, "no member answers"); }

    std::shared_ptr<state> of_;
    uint32_t lease_s_;
    uint64_t lease_ = 0;
  };

  std::shared_ptr<state> state_ = std::make_shared<state>();
};

}  // namespace troupe::tests
