// Tests the conclusions of the cluster doctor from facts about hosts and pairs of hosts, without any host: which host
// differs from the others, what is printed, which pairs are measured at the same time, and what agents report about
// their job.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <set>

#include "apps/agent/doctor_questions.hpp"
#include "apps/agent/host_examiner.hpp"
#include "apps/agent/introduction.hpp"
#include "apps/agent/pair_rounds.hpp"
#include "apps/machine/cluster_doctor.hpp"
#include "apps/machine/pair_speeds.hpp"
#include "tests/check_ok.hpp"
#include "tests/net/movers.hpp"

BOOST_AUTO_TEST_SUITE(examination)

using namespace troupe;
using namespace troupe::apps;
using troupe::tests::check_ok;

namespace {

host_facts good() {
  host_facts f;
  f.version = "troupe 1";
  f.program = "0123";
  f.configuration = "4567";
  f.processor = "Some CPU";
  f.instructions = "Some avx2 fma";
  f.cores = 8;
  f.memory_bytes = f.available_bytes = uint64_t{32} << 30;
  f.folder = "/runs";
  f.free_bytes = uint64_t{100} << 30;
  f.sees_token = true;
  return f;
}

examined_cluster four_hosts() {
  examined_cluster all;
  for (const char* name : {"a", "b", "c", "d"}) all.hosts.push_back({name, good()});
  for (uint32_t i = 0; i < 4; ++i)
    for (uint32_t j = 0; j < 4; ++j)
      if (i != j) all.pairs.push_back({i, j, 50e-6, 1e9});
  return all;
}

/// Returns the condition and the topic of each finding that is not fine.
std::vector<std::string> topics(const examined_cluster& all) {
  std::vector<std::string> out;
  for (const auto& f : examine(all))
    if (f.is != condition::fine) out.push_back((f.is == condition::poor ? "poor " : "wrong ") + f.topic);
  return out;
}

using lines = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_CASE(equal_hosts_fit_together) {
  const auto all = four_hosts();
  BOOST_TEST((topics(all) == lines{}));
  const auto found = examine(all);
  BOOST_TEST(fits(found));
  BOOST_TEST(cluster_text(all, found).ends_with("\n4 hosts fit together\n"));
}

BOOST_AUTO_TEST_CASE(the_host_that_differs_from_most_is_named_with_what_differs) {
  auto all = four_hosts();
  all.hosts[2].facts->version = "troupe 2";
  BOOST_TEST((topics(all) == lines{"wrong version of c"}));
  all = four_hosts();
  all.hosts[0].facts->program = "other";  // the first host is compared like all others
  BOOST_TEST((topics(all) == lines{"wrong program of a"}));
  all = four_hosts();
  all.hosts[3].facts->configuration = "other";
  BOOST_TEST((topics(all) == lines{"wrong config of d"}));
  all.hosts[3].facts->configuration = "";  // a host without a configuration receives the first host's
  BOOST_TEST((topics(all) == lines{}));
  all.hosts[1].facts->instructions = "Some avx2 fma avx512f";
  BOOST_TEST((topics(all) == lines{"wrong processor of b"}));
  BOOST_TEST(!fits(examine(all)));
}

BOOST_AUTO_TEST_CASE(of_two_hosts_the_first_is_right) {
  examined_cluster all{{{"a", good()}, {"b", good()}}, {}};
  all.hosts[1].facts->version = "troupe 0";
  BOOST_TEST((topics(all) == lines{"wrong version of b"}));
}

BOOST_AUTO_TEST_CASE(a_host_without_the_output_its_room_or_the_data_is_named) {
  auto all = four_hosts();
  all.hosts[1].facts->sees_token = false;
  all.hosts[2].facts->cannot_write = "Read-only file system";
  all.hosts[3].facts->missing_files = {"/data/text"};
  all.hosts[3].facts->free_bytes = all.hosts[3].facts->available_bytes = 1000;
  BOOST_TEST((topics(all) == lines{"wrong output of b", "wrong output of c", "poor memory of d", "poor disk of d",
                                   "wrong data of d"}));
}

BOOST_AUTO_TEST_CASE(a_host_that_cannot_listen_where_the_file_says_is_named) {
  auto all = four_hosts();
  all.hosts[1].cannot_listen = "cluster.hosts[].bind: cannot listen at 10.9.9.9";
  std::erase_if(all.pairs, [](const examined_pair& p) { return p.from == 1 || p.to == 1; });
  BOOST_TEST((topics(all) == lines{"wrong address of b"}));
  // The network of a host is judged only if all pairs were connected.
  for (const auto& f : examine(all)) BOOST_TEST(f.topic != "network");
  BOOST_TEST(cluster_json(all, examine(all)).find(R"("cannot_listen": "cluster.hosts[].bind)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_host_opens_what_is_measured_where_the_file_says_that_it_listens) {
  host_examiner host({{}, {}, "127.0.0.1"});
  const auto opened = [&](const std::string& bind, const std::string& interface) {
    return decode_answer<mover_place>(host.answer(encode(open_question{std::string(32, 's'), 1, bind, interface})));
  };
  const auto usual = opened("", ""), bound = opened("127.0.0.2", "no such one"), of_interface = opened("", "lo");
  BOOST_TEST_REQUIRE((usual && bound && of_interface));
  BOOST_TEST((usual->host == "127.0.0.1" && bound->host == "127.0.0.2" && of_interface->host == "127.0.0.1"));
  const auto foreign = opened("198.51.100.77", "");
  BOOST_TEST_REQUIRE(!foreign.has_value());
  BOOST_TEST(foreign.error().text.starts_with("cluster.hosts[].bind: cannot listen at 198.51.100.77:0: "));
  BOOST_TEST(foreign.error().text.find("; this host has 127.0.0.1 (lo)") != std::string::npos, foreign.error().text);
  const auto none = opened("", "none7");
  BOOST_TEST_REQUIRE(!none.has_value());
  BOOST_TEST(none.error().text.starts_with("cluster.interface: wanted"), none.error().text);
}

BOOST_AUTO_TEST_CASE(a_host_that_is_not_there_is_named_and_the_others_are_compared) {
  auto all = four_hosts();
  all.hosts[3] = {"d", std::nullopt, "no agent connected within 30 s"};
  std::erase_if(all.pairs, [](const examined_pair& p) { return p.from == 3 || p.to == 3; });
  BOOST_TEST((topics(all) == lines{"wrong host d"}));
  BOOST_TEST(cluster_text(all, examine(all)).find("d     -      -") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_slow_or_late_host_is_named_once_and_a_slow_pair_by_both_ends) {
  auto all = four_hosts();
  for (auto& p : all.pairs)
    if (p.from == 2 || p.to == 2) p.bytes_per_s = 1e7;
  BOOST_TEST((topics(all) == lines{"poor network of c"}));
  all = four_hosts();
  for (auto& p : all.pairs)
    if (p.from == 3) p.bytes_per_s = 1e7;  // host 3 is slow only as the sender
  BOOST_TEST((topics(all) == lines{"poor network of d"}));
  all = four_hosts();
  for (auto& p : all.pairs)
    if (p.from == 1 || p.to == 1) p.delay_s = 5e-3;
  BOOST_TEST(doubtful_pairs(all, 9).size() == 6U);
  BOOST_TEST(doubtful_pairs(all, 4).size() == 4U);
  BOOST_TEST((topics(all) == lines{"poor network of b"}));
  all = four_hosts();
  all.pairs[0].bytes_per_s = 1e7;
  BOOST_TEST((topics(all) == lines{"poor network from a to b"}));
  BOOST_TEST(doubtful_pairs(all, 9) == std::vector<size_t>{0}, boost::test_tools::per_element());
  all.pairs[0].bytes_per_s = 1e9;  // the slow first measurement was due to a busy moment
  BOOST_TEST(doubtful_pairs(all, 9).empty());
  all = four_hosts();
  all.pairs[5].problem = "refused";
  BOOST_TEST((topics(all) == lines{"wrong network from b to d"}));
}

BOOST_AUTO_TEST_CASE(the_report_has_a_row_for_each_host_and_as_json_all_of_it) {
  auto all = four_hosts();
  all.hosts[3].facts->configuration = "other";
  const auto found = examine(all);
  const auto text = cluster_text(all, found);
  for (const char* part : {"host  cores", "from \\ to", "1.0 GB/s 0.05 ms", "wrong  config of d",
                           "mend:  ", "1 thing is wrong with 4 hosts"})
    BOOST_TEST(text.find(part) != std::string::npos, "wanted `" << part << "` in " << text);
  const auto j = nlohmann::json::parse(cluster_json(all, found));
  BOOST_TEST((j["hosts"].size() == 4 && j["pairs"].size() == 12 && j["fit"] == false));
  BOOST_TEST(j["hosts"][3]["configuration"] == "other");
  while (all.hosts.size() < pair_table_hosts_max + 1) all.hosts.push_back({"more", good()});
  BOOST_TEST(cluster_text(all, found).find("slowest") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(rounds_have_every_pair_once_and_a_host_in_one_pair_at_a_time) {
  for (uint32_t n = 0; n < 12; ++n) {
    BOOST_TEST_INFO_SCOPE("n " << n);
    std::vector<uint32_t> hosts;
    for (uint32_t h = 0; h < n; ++h) hosts.push_back(10 + h);
    std::set<std::pair<uint32_t, uint32_t>> seen;
    for (const auto& round : pair_rounds(hosts)) {
      std::set<uint32_t> busy;
      for (const auto& [x, y] : round) {
        BOOST_TEST((busy.insert(x).second && busy.insert(y).second));
        BOOST_TEST(seen.insert(std::minmax(x, y)).second);
      }
    }
    BOOST_TEST(seen.size() == n * (n == 0 ? 0 : n - 1) / 2);
  }
}

BOOST_AUTO_TEST_CASE(an_agent_says_its_job_and_both_ends_hear_what_differs) {
  const auto first = introduction_of("english", "4567");
  const auto back = check_ok(read_introduction(as_text(first)));
  BOOST_TEST((back->version == first.version && back->job == "english" && back->configuration == "4567"));
  BOOST_TEST((back->id.empty() && !back->node));
  const auto launched = check_ok(read_introduction(as_text(introduction_of("english", "4567", "ab01", 3))));
  BOOST_TEST((launched->job == "english" && launched->id == "ab01" && launched->node == 3U));
  BOOST_TEST(objection(first, introduction_of("english", ""), "b").empty());
  BOOST_TEST(objection(first, first, "b").empty());
  const auto says = [&](const introduction& agent, const std::string& what) {
    BOOST_TEST(objection(first, agent, "b").find(what) != std::string::npos, objection(first, agent, "b"));
  };
  says({"troupe 0", "english", ""}, "wanted an agent of " + first.version + ", got one of troupe 0 on b");
  says(introduction_of("french", ""), "wanted an agent of the job 'english', got one of the job 'french' on b");
  says(introduction_of("", ""), "got one that names no job on b: troupe agent --job 'english'");
  says(introduction_of("english", "89ab"),
       "wanted an agent with the first host's configuration, 4567, got one with 89ab");
  BOOST_TEST(objection(introduction_of("", ""), first, "b").find("cluster.job is not set") != std::string::npos);
  for (const char* none : {"", "troupe 1", "troupe 1\njob x", "troupe 1\njob x\ny\nconfiguration z",
                           "troupe 1\njob x\nconfiguration z", "troupe 1\njob x\nconfiguration z\nagent i\nnode -1"})
    BOOST_TEST_CONTEXT(none) BOOST_TEST(!read_introduction(none).has_value());
}

BOOST_AUTO_TEST_CASE(questions_and_answers_come_back_from_bytes_and_others_are_refused) {
  const auto q = check_ok(decode_question(encode(look_question{"/runs", "/runs/token", {"/data"}})));
  BOOST_TEST(std::get<look_question>(*q).token == "/runs/token");
  for (const char* bytes : {"", "x", "\x07"}) BOOST_TEST_CONTEXT(bytes) BOOST_TEST(!decode_question(bytes).has_value());
  const auto facts = check_ok(decode_answer<host_facts>(encode_answer(core::result<host_facts>(good()))));
  BOOST_TEST((facts->instructions == "Some avx2 fma" && facts->sees_token));
  const auto none = decode_answer<pair_speed>(
      encode_answer(core::result<no_answer>(core::fail(core::error_kind::peer_lost, "it has gone"))));
  BOOST_TEST(none.error().text == "it has gone");
  BOOST_TEST(!decode_answer<pair_speed>("what?").has_value());
}

BOOST_AUTO_TEST_CASE(only_instructions_of_products_count_and_what_libraries_are_told_to_leave_out) {
  const std::vector<std::string> flags = {"fpu", "sse2", "avx2", "fma", "avx512f", "rdrand"};
  BOOST_TEST(product_instructions("Some CPU @ 2 GHz", flags, nullptr) == "Some avx2 fma avx512f");
  BOOST_TEST(product_instructions("Some CPU", flags, "avx2") == "Some avx2 fma avx512f (ATEN_CPU_CAPABILITY=avx2)");
}

BOOST_AUTO_TEST_CASE(a_pair_is_measured_over_the_movers_that_data_uses) {
  net::mesh m(3);
  std::vector<std::unique_ptr<pair_meter>> meters;
  for (uint32_t p = 0; p < 3; ++p) meters.push_back(std::make_unique<pair_meter>(m[p]));
  for (const auto& [from, to] : {host_pair{0, 1}, host_pair{2, 0}, host_pair{1, 2}}) {
    const auto speed = check_ok(meters[from]->measure(to));
    BOOST_TEST((speed->delay_s > 0 && speed->delay_s < 0.1));
    BOOST_TEST(speed->bytes_per_s > 1e6);
  }
  BOOST_TEST(!meters[0]->measure(7).has_value());  // no agent listens at this address
}

BOOST_AUTO_TEST_SUITE_END()
