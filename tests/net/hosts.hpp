// Creates the certificates of an invented job, once for each test program, and endpoints that use them.
#pragma once

#include <poll.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.hpp"
#include "net/certificates.hpp"
#include "net/endpoint.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::net {

/// Owns two certificate authorities, "ours" and "theirs", and certificates of four hosts for each of them.
class made_up_hosts {
 public:
  made_up_hosts() {
    for (const char* job : {"ours", "theirs"}) {
      must(make_authority(folder_ / job, job));
      for (const char* host : {"node1", "node2", "127.0.0.1", "::1"}) must(issue_certificate(folder_ / job, host));
    }
  }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }
  [[nodiscard]] identity of(const std::string& host, const std::string& job = "ours") const {
    auto out = identity::load(identity_files_in(folder_ / job / host));
    BOOST_TEST_REQUIRE(out.has_value(), (out ? "" : out.error().text));
    return *out;
  }

  static void must(const core::result<void>& done) {
    BOOST_TEST_REQUIRE(done.has_value(), (done ? "" : done.error().text));
  }

 private:
  tests::scratch_folder folder_;
};

inline const made_up_hosts& hosts() {
  static const made_up_hosts all;
  return all;
}

template <class T>
T must(core::result<T> x) {
  BOOST_TEST_REQUIRE(x.has_value(), (x ? "" : x.error().text));
  return std::move(*x);
}

inline bool is_readable(int number, int within_ms) {
  pollfd on{number, POLLIN, 0};
  return ::poll(&on, 1, within_ms) == 1;
}

/// Waits at most `within_ms` for an incoming link and returns it; fails the test if none or several arrive.
inline std::unique_ptr<tls_link> next_link(endpoint& at, int within_ms = 5000) {
  BOOST_TEST_REQUIRE(is_readable(at.number(), within_ms));
  auto all = at.accepted();
  BOOST_TEST_REQUIRE(all.size() == 1);
  return std::move(all[0]);
}

/// Waits at most `within_ms` for messages on a link. Returns at least one message, or the error that ended the link.
inline core::result<std::vector<cluster::parcel>> next_parcels(tls_link& from, int within_ms = 60000) {
  const int64_t until = core::now_ns() + int64_t{within_ms} * 1'000'000;
  while (core::now_ns() < until) {
    is_readable(from.number(), within_ms);
    auto came = from.receive();
    if (!came || !came->empty()) return came;
  }
  return core::fail(core::error_kind::stalled, "nothing came");
}

/// Owns two endpoints on this machine and a link between them.
struct linked_hosts {
  linked_hosts() : a(must(endpoint::open({hosts().of("node1")}))), b(must(endpoint::open({hosts().of("node2")}))) {
    const uint16_t port = must(a->listen("127.0.0.1", 0));
    of_b = must(b->connect("127.0.0.1", port, "node1", "I am b"));
    of_a = next_link(*a);
  }
  std::unique_ptr<endpoint> a, b;
  std::unique_ptr<tls_link> of_a, of_b;
};

}  // namespace troupe::net
