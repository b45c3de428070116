// Trains on three hosts with an etcd, started as a user starts them. After the first host is lost, another one must
// lead from the newest checkpoint on the disk, with the losses and norms of an undisturbed run with the same degrees;
// the lost host must come back as an agent; and an etcd that does not answer must not end the job.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <thread>

#include "core/clock.hpp"
#include "tests/etcd_server.hpp"
#include "tests/machines/host_commands.hpp"
#include "tests/machines/job_on_hosts.hpp"
#include "tests/machines/job_with_store.hpp"
#include "tests/made_up_text.hpp"
#include "tests/places.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(store)

using namespace troupe::tests;

namespace {

struct three_and_an_etcd {
  etcd_server etcd;
  scratch_folder file;
  job_on_hosts job;

  explicit three_and_an_etcd(uint32_t lost_after_s) : job(written(lost_after_s), nullptr) {}

 private:
  command_of_job written(uint32_t lost_after_s) {
    std::ofstream(file / "corpus.txt") << made_up_text(60'000);
    std::ofstream(file / "job.yaml") << job_with_store(endless, etcd.store(), lost_after_s);
    return {troupe::places::troupe_binary, (file / "job.yaml").string(), {}, "english"};
  }
};

bool has_etcd() {
  if (etcd_server::is_installed()) return true;
  troupe::tests::say_skipped("leader of a job in a real etcd", "no etcd is installed", "etcd-server");
  return false;
}

/// Returns the seconds since `ns`, a time in nanoseconds.
double since(int64_t ns) { return double(troupe::core::now_ns() - ns) / 1e9; }

}  // namespace

BOOST_AUTO_TEST_CASE(another_host_leads_where_the_first_is_lost_and_takes_it_back_when_it_returns) {
  if (!has_etcd()) return;
  three_and_an_etcd x(2);
  auto& job = x.job;
  BOOST_TEST_REQUIRE(job.first().wait_for("\"step\":30,"));
  const auto latest = job.folder() / "lost/checkpoints/latest";
  for (int tries = 0; tries < 600 && !std::filesystem::exists(latest); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const int64_t lost_ns = troupe::core::now_ns();
  job.kill_first();
  const auto newest = scratch_folder::read(latest);  // name of the newest checkpoint, such as "step-00000020"
  const auto from = std::stoull(newest.substr(newest.find('-') + 1));
  uint32_t leader = 0;  // number of the host that leads, 1 or 2
  for (int tries = 0; leader == 0 && tries < 600; ++tries)
    for (const uint32_t host : {1U, 2U})
      if (job.agent(host).has_said("leads the job now, at")) leader = host;
  BOOST_TEST_REQUIRE(leader != 0U);
  const double led_s = since(lost_ns);
  // Takes at most two leases of 2 s, and 1.5 s because etcd checks for expired leases twice a second.
  BOOST_TEST(led_s < 2 * 2 + 1.5);
  auto& first = job.agent(leader);
  BOOST_TEST_REQUIRE(first.wait_for("\"event\":\"step\""));
  BOOST_TEST_MESSAGE(
      fmt::format("another host leads after {:.1f} s, the next step is done after {:.1f} s", led_s, since(lost_ns)));
  job.start_first();  // starts with --fresh, as the first time
  BOOST_TEST_REQUIRE(job.first().wait_for_error("this host serves as its agent"));
  BOOST_TEST_REQUIRE(first.wait_for_error(": 3 data ranks after step"));
  job.stop();
  const auto ended = first.end(std::chrono::seconds(120));
  BOOST_TEST_REQUIRE(ended.code == 0, ended.err);
  const auto terms = terms_told(ended.err);
  BOOST_TEST_REQUIRE(terms.has_value(), ended.err);
  BOOST_TEST_MESSAGE(terms->line);
  BOOST_TEST(terms->line.starts_with(fmt::format("2 -> 3 ranks at steps {}, ", from)), terms->line);
  const auto returned = job.first().end(), third = job.agent(3 - leader).end();
  BOOST_TEST(returned.code == 0, returned.err);
  BOOST_TEST(third.code == 0, third.err);
  const auto different = job.difference_from_twin("3@0," + terms->degrees);
  BOOST_TEST(!different, different.value_or(""));
  BOOST_TEST(job.left_behind() == "");
}

BOOST_AUTO_TEST_CASE(an_etcd_that_is_silent_to_the_end_ends_nothing) {
  if (!has_etcd()) return;
  three_and_an_etcd x(10);
  auto& job = x.job;
  BOOST_TEST_REQUIRE(job.first().wait_for("\"step\":10,"));
  x.etcd.stop();
  BOOST_TEST_REQUIRE(job.first().wait_for_error("training continues, and the request for the lease is repeated"));
  job.stop();
  const auto ended = job.first().end(std::chrono::seconds(120));
  BOOST_TEST_REQUIRE(ended.code == 0, ended.err);
  const auto terms = terms_told(ended.err);
  BOOST_TEST_REQUIRE(terms.has_value(), ended.err);
  BOOST_TEST(terms->degrees == "3@0", terms->line);
  BOOST_TEST((job.agent(1).end().code == 0 && job.agent(2).end().code == 0));
}

BOOST_AUTO_TEST_CASE(a_store_that_is_not_there_or_holds_another_job_is_refused_in_a_sentence) {
  if (!has_etcd()) return;
  const etcd_server etcd;
  const scratch_folder folder;
  std::ofstream(folder / "corpus.txt") << made_up_text(60'000);
  std::ofstream(folder / "job.yaml") << job_with_store(10, etcd.store(), 20);
  for (const char* authority : {"certs", "others"})
    make_certificates(troupe::places::troupe_binary, folder.path(), {"a", "b"}, authority);
  const auto train = [](const std::string& authority, const std::string& store) {
    std::vector<std::string> out{troupe::places::troupe_binary, "train", "job.yaml"};
    set_keys(out, first_host_keys(fmt::format("127.0.0.1:{}", free_port()), "a", authority));
    set_keys(out, {"output=" + authority + "-run", store.empty() ? "steps=10" : "cluster.store=" + store});
    return out;
  };
  const auto nobody = run(train("certs", "etcd://127.0.0.1:1"), folder.path());
  BOOST_TEST(nobody.code == 1);
  BOOST_TEST(nobody.err ==
             "troupe: error: cluster.store: no member of etcd://127.0.0.1:1 answers: 127.0.0.1:1: "
             "Connection refused\n");
  const auto wrong = run(train("certs", "consul://127.0.0.1:1"), folder.path());
  BOOST_TEST(wrong.code == 2);
  BOOST_TEST(wrong.err.find("wanted etcd://HOST:PORT") != std::string::npos, wrong.err);
  process leads(train("certs", ""), folder.path());
  BOOST_TEST_REQUIRE(leads.wait_for_error("waits for agents on b, c"));
  const auto other = run(train("others", ""), folder.path());
  BOOST_TEST(other.code == 1);
  BOOST_TEST(other.err.find("wanted the leader of a job of this host's authority in the key /troupe/english/leader") !=
                 std::string::npos,
             other.err);
  const auto agent = [&](std::vector<std::string> more) {
    std::vector<std::string> command{troupe::places::troupe_binary, "agent", "--tls", "others/b"};
    command.insert(command.end(), more.begin(), more.end());
    return run(command, folder.path());
  };
  BOOST_TEST(
      agent({"--store", etcd.store(), "--job", "english"}).err.find("of another authority: give each job a name") !=
      std::string::npos);
  BOOST_TEST(agent({"--store", "etcd://127.0.0.1:1", "--job", "english"}).err.find("Connection refused") !=
             std::string::npos);
  BOOST_TEST(agent({"--store", etcd.store()}).err.find("--store: give --job NAME too") != std::string::npos);
  BOOST_TEST(agent({"--store", "zk://a:1", "--job", "x"}).err.find("wanted etcd://HOST:PORT") != std::string::npos);
  BOOST_TEST(agent({}).err.find("got neither") != std::string::npos);
  leads.send(SIGKILL);
}

BOOST_AUTO_TEST_SUITE_END()
