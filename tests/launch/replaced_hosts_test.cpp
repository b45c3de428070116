// Tests two hosts that are to be replaced in the same term: each is replaced by a spare host, or the second request is
// refused with the host's name.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <csignal>
#include <memory>

#include "tests/launch/launched.hpp"
#include "tests/launch/local_sshd.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(replaced_hosts)

using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(of_two_hosts_that_one_spare_is_to_replace_one_is_refused_by_name) {
  const launched job({"a", "b", "c", "d"},
                     fmt::format("  hosts: [{{name: a}}, {{name: b}}, {{name: c}}, {{name: d, spare: true}}]\n"
                                 "  listen: \"127.0.0.1:{}\"\nparallel: {{data: 3}}\n",
                                 free_port()));
  const auto as = [&](int rank) {
    return words{"/usr/bin/env", "WORLD_SIZE=4", fmt::format("RANK={}", rank)} +
           launched::train("many", {"--steps", "1000000", "--json", "--set", "train_batch_size=12"});
  };
  process first(as(0), job.folder());
  process b(as(1), job.folder()), c(as(2), job.folder()), d(as(3), job.folder());
  BOOST_TEST_REQUIRE(first.wait_for("\"step\":3,"));
  const auto ask = [&](const words& question) { return run(words{troupe::places::troupe_binary} + question, job.folder()); };
  BOOST_TEST_REQUIRE(ask({"pause", "many"}).code == 0);  // pauses the job, so that both requests arrive in one term
  bool waits = false;
  for (int tries = 0; tries < 100 && !waits; ++tries) {
    ::usleep(100'000);
    waits = ask({"status", "many"}).out.find(": spare") != std::string::npos;
  }
  BOOST_TEST_REQUIRE(waits);
  process one({troupe::places::troupe_binary, "replace", "many", "b"}, job.folder()),
      other({troupe::places::troupe_binary, "replace", "many", "c"}, job.folder());
  // The loop ends when one request is refused; the other request waits until the pause ends.
  for (int tries = 0; tries < 100 && !one.has_said("wanted") && !other.has_said("wanted");) ++tries;
  BOOST_TEST(ask({"resume", "many"}).code == 0);
  const auto of_b = one.end(), of_c = other.end();
  const auto &refused = of_b.code == 0 ? of_c : of_b, &done = of_b.code == 0 ? of_b : of_c;
  BOOST_TEST((done.code == 0 && refused.code == 1), of_b.err << of_c.err);
  BOOST_TEST(refused.err.find(fmt::format("wanted 1 spare process on other hosts besides those that replace "
                                          "{}, got 0",
                                          of_b.code == 0 ? "b" : "c")) != std::string::npos,
             refused.err);
  first.send(SIGTERM);
  for (auto* const x : {&first, &b, &c, &d}) {
    const auto did = x->end();
    BOOST_TEST((did.code == 143 || did.code == 0), did.code << did.err);
  }
}

BOOST_AUTO_TEST_SUITE_END()
