// Connects byte movers on this machine with each other, and provides transfers whose end a test can wait for.
#pragma once

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "net/tls_mover.hpp"
#include "tests/net/hosts.hpp"

namespace troupe::net {

inline term_key key_of(uint32_t place, unsigned char secret = 7, const std::string& job = "a-job", uint64_t term = 1) {
  std::array<std::byte, 32> bytes{};
  bytes.fill(std::byte{secret});
  return {term_secret(bytes), job, term, place};
}

/// Counts transfers that have ended and stores the text of the first error. Thread-safe.
class endings {
 public:
  fabric::transfer_end one() {
    const std::lock_guard lock(mutex_);
    ++wanted_;
    return [this](const core::result<void>& how) {
      const std::lock_guard lock(mutex_);
      ++told_;
      if (!how) ++failed_;
      if (!how && error_.empty()) error_ = how.error().text;
      came_.notify_all();
    };
  }
  bool wait(int within_s = 20) {
    std::unique_lock lock(mutex_);
    return came_.wait_for(lock, std::chrono::seconds(within_s), [&] { return told_ == wanted_; });
  }
  [[nodiscard]] size_t told() const { return locked(told_); }
  [[nodiscard]] size_t failed() const { return locked(failed_); }
  [[nodiscard]] std::string error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  [[nodiscard]] size_t locked(const size_t& x) const {
    const std::lock_guard lock(mutex_);
    return x;
  }
  mutable std::mutex mutex_;
  std::condition_variable came_;
  size_t wanted_ = 0, told_ = 0, failed_ = 0;
  std::string error_;
};

/// Owns `count` movers, each connected to all others.
class mesh {
 public:
  explicit mesh(uint32_t count, const std::string& at = "127.0.0.1") {
    std::map<uint32_t, mover_peer> all;
    for (uint32_t p = 0; p < count; ++p) {
      movers_.push_back(must(tls_mover::open({key_of(p), at})));
      all[p] = {at, movers_[p]->port()};
    }
    std::vector<std::thread> threads;
    std::vector<core::result<void>> done(count);
    for (uint32_t p = 0; p < count; ++p)
      threads.emplace_back([&, p] {
        auto others = all;
        others.erase(p);
        done[p] = movers_[p]->connect(others);
      });
    for (auto& t : threads) t.join();
    for (const auto& d : done) BOOST_TEST_REQUIRE(d.has_value(), (d ? "" : d.error().text));
  }
  tls_mover& operator[](uint32_t p) { return *movers_[p]; }
  void end(uint32_t p) { movers_[p].reset(); }

 private:
  std::vector<std::unique_ptr<tls_mover>> movers_;
};

inline std::vector<std::byte> random_bytes(size_t count, uint32_t seed) {
  std::vector<std::byte> out(count);
  std::mt19937 random(seed);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i % 4 == 0 ? random() : i * seed);
  return out;
}

}  // namespace troupe::net
