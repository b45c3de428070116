#include "cluster/messages.hpp"

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <random>
#include <sstream>
#include <vector>

#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(messages)

using namespace troupe;
using namespace troupe::cluster;

namespace {

std::vector<message> one_of_each() {
  return {hello{7, "1.0", "a job"},
          beat{9, 8, 7},
          offer{3, 9},
          ready{3, "digest", 12},
          quiet{3},
          failed{3, core::error_kind::io, "no disk", 2},
          call{3, 4, std::string("\0\1", 2)},
          answer{3, 4, 1, "well"},
          kept_file{"m/shard-00000.bin", 4096},
          kept_save{"m/step-1", "m/.writing", 1},
          between_steps{3, 2},
          leaving{-1},
          begin_term{
              4, 2, {{0, 0, 1}, {2, 1, 1}}, "m/step-1", "rank 1 was killed", "secret", {{{0, 3}, {20, 2}}, 34, 1, 5}},
          started{4},
          end_term{4, true, core::error_kind::peer_lost, "rank 1"},
          join_wanted{4},
          dismissal{},
          address{4, 1, "10.0.0.2", 41000},
          job_order{{"troupe", "train", "a.yaml"}, 2, "steps: 3\n", "/jobs", 1, {1, 2}, 5'000'000'000},
          start_place{1},
          kill_place{1},
          place_ended{1, "was killed"},
          passed{1, "bytes"},
          signalled{15, 2},
          job_over{130, "process 1 on b: no such file", true},
          machine_question{1, "facts"},
          machine_answer{1, "16 cores"},
          roster{3, {{1, "b", 4711, "working", 2, 4, 1}}},
          replace_wanted{3, "b"}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_message_comes_back_as_it_was) {
  for (const message& m : one_of_each()) {
    const std::string bytes = encode(m);
    const auto back = decode(bytes);
    BOOST_TEST_REQUIRE(back.has_value(), name_of(m));
    BOOST_TEST(back->index() == m.index());
    BOOST_TEST(encode(*back) == bytes, name_of(m));
  }
  BOOST_TEST(one_of_each().size() == std::variant_size_v<message>);
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_message_are_refused) {
  for (const message& m : one_of_each()) {
    const std::string bytes = encode(m);
    for (size_t n = 0; n < bytes.size(); ++n) BOOST_TEST(!decode(std::string_view(bytes).substr(0, n)).has_value());
    BOOST_TEST(!decode(bytes + "x").has_value(), name_of(m));
  }
  BOOST_TEST(!decode("\x7f").has_value());
}

BOOST_AUTO_TEST_CASE(mutated_bytes_never_do_harm) {
  std::mt19937 random(1);
  const auto all = one_of_each();
  for (int i = 0; i < 1000; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    std::string bytes = encode(all[random() % all.size()]);
    for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (const auto back = decode(bytes)) BOOST_TEST(encode(*back) == bytes);
  }
}

BOOST_AUTO_TEST_CASE(the_page_of_processes_has_a_row_for_each) {
  std::ifstream in(std::string(troupe::places::source_dir) + "/docs/cluster.md");
  std::ostringstream page;
  page << in.rdbuf();
  for (const message& m : one_of_each()) {
    const std::string name = "`" + std::string(name_of(m)) + "`";
    BOOST_TEST(page.str().find(name) != std::string::npos, name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
