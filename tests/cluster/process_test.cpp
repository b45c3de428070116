// Tests how a process of a job ends: the supervisor receives its exit code, or none if the process has set none.
#include "cluster/process.hpp"

#include <boost/test/unit_test.hpp>

#include <poll.h>

#include <optional>
#include <stdexcept>
#include <vector>

BOOST_AUTO_TEST_SUITE(process)

using namespace troupe;
using namespace troupe::cluster;

namespace {

const process_setup small{0, 5'000'000'000, "1", "job"};

/// Returns all messages that the other end sends until the link is closed, except beats.
std::vector<message> all_from(socket_link& end) {
  std::vector<message> out;
  for (;;) {
    pollfd on{end.number(), POLLIN, 0};
    ::poll(&on, 1, 10'000);
    auto came = end.receive();
    if (!came) return out;
    for (auto& p : *came)
      if (!std::holds_alternative<beat>(p.what)) out.push_back(std::move(p.what));
  }
}

/// Returns the exit code in the last message; empty if that message is not `leaving`.
std::optional<int32_t> code_in(const std::vector<message>& all) {
  const auto* const last = all.empty() ? nullptr : std::get_if<leaving>(&all.back());
  return last == nullptr ? std::nullopt : std::optional(last->code);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_process_says_the_code_that_it_was_given) {
  for (const int32_t code : {0, 3}) {
    BOOST_TEST_INFO_SCOPE("code " << code);
    auto ends = make_pair().value();
    socket_link supervisor(ends.first);
    {
      cluster::process me(std::move(ends.second), small);
      me.leave(code);
    }
    ends = {};
    BOOST_TEST((code_in(all_from(supervisor)) == code));
  }
}

BOOST_AUTO_TEST_CASE(a_process_that_an_exception_ends_says_no_code) {
  auto ends = make_pair().value();
  socket_link supervisor(ends.first);
  try {
    cluster::process me(std::move(ends.second), small);
    throw std::runtime_error("no memory");
  } catch (const std::runtime_error&) {
  }
  ends = {};
  const auto said = all_from(supervisor);
  BOOST_TEST(said.size() == 1U);  // the only message is `hello`
  BOOST_TEST(!code_in(said).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
