// Tests that hostfiles and filters have the same meaning as in DeepSpeed, and that arguments passed to another program
// through a shell are not changed.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>

#include "apps/launch/hostfile.hpp"
#include "apps/launch/remote.hpp"
#include "tests/apps/process.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(hostfile)

using namespace troupe::apps;

namespace {

const char* const four = "# machines\nn1 slots=4\n\n  n2   slots=2  # small\nn3 slots=1\n";

std::vector<host_slots> hosts() { return *read_hostfile(four, "hosts"); }
std::string refused(const std::string& text) {
  const auto got = read_hostfile(text, "hosts");
  return got ? "" : got.error().text;
}
/// Returns hosts and slots as text, such as "n1:0,1 n2:0".
std::string shown(const troupe::core::result<std::vector<host_slots>>& got) {
  if (!got) return got.error().text;
  std::string out;
  for (const auto& h : *got) {
    out += (out.empty() ? "" : " ") + h.name + ":";
    for (const uint32_t s : h.slots) out += fmt::format("{}{}", out.back() == ':' ? "" : ",", s);
  }
  return out;
}
std::string included(const std::string& text) { return shown(filter_hosts(hosts(), text, "")); }
std::string excluded(const std::string& text) { return shown(filter_hosts(hosts(), "", text)); }

}  // namespace

BOOST_AUTO_TEST_CASE(lines_are_hosts_and_their_slots) {
  BOOST_TEST(shown(read_hostfile(four, "hosts")) == "n1:0,1,2,3 n2:0,1 n3:0");
}

BOOST_AUTO_TEST_CASE(hostfiles_of_other_launchers_and_editors_are_read) {
  for (const char* text : {"n1 slots=2 max_slots=4", "n1\tslots=2\r\n", "\xEF\xBB\xBFn1 slots=2\n", "n1 slots = 2",
                           "n1 slots= 2 # first\r\n\r\n", "  n1 max_slots=8 slots=2", "n1 SLOTS=2  # rack 7",
                           "# gpus\n\n\tn1  slots\t=2  \n"})
    BOOST_TEST(shown(read_hostfile(text, "hosts")) == "n1:0,1", text);
  const auto named = read_hostfile("me@n1 slots=1\nubuntu@10.0.0.2 slots=1\n::1 slots=1\n[fe80::2] slots=1\n", "hosts");
  BOOST_TEST_REQUIRE(named.has_value());
  BOOST_TEST((*named)[0].name == "n1");
  BOOST_TEST((*named)[0].destination() == "me@n1");
  BOOST_TEST((*named)[1].destination() == "ubuntu@10.0.0.2");
  BOOST_TEST((*named)[2].destination() == "::1");
  BOOST_TEST((*named)[3].destination() == "fe80::2");
}

BOOST_AUTO_TEST_CASE(lines_that_are_none_are_refused_with_their_number) {
  BOOST_TEST(refused("n1 slots=2\nn2 slots=0\n") ==
             "hosts:2: wanted 1 to 65536 slots for n2, got 0; leave the host out to use none");
  BOOST_TEST(refused("n1 slots=2\nn1 slots=2\n") == "hosts:2: wanted each host once, got n1 again");
  BOOST_TEST(refused("n1\n") == "hosts:1: wanted `HOST slots=N`, got `n1`");
  BOOST_TEST(refused("n1 slots=two\n") == "hosts:1: wanted `HOST slots=N`, got `n1 slots=two`");
  BOOST_TEST(refused("-oProxyCommand=x slots=2\n").find("does not begin with -") != std::string::npos);
  BOOST_TEST(refused("n$(reboot) slots=2\n").find("letters, digits and .-:_") != std::string::npos);
  BOOST_TEST(refused("n1:4\n") == "hosts:1: wanted `HOST slots=N`, got `n1:4`");
  BOOST_TEST(refused("n1 max_slots=4\n") == "hosts:1: wanted `HOST slots=N`, got `n1 max_slots=4`");
  BOOST_TEST(refused("me@n1 slots=1\nn1 slots=1\n") == "hosts:2: wanted each host once, got n1 again");
  BOOST_TEST(refused("-l@n1 slots=2\n").find("a user's name of letters, digits") != std::string::npos);
  BOOST_TEST(refused("a@b@n1 slots=2\n").find("letters, digits and .-:_") != std::string::npos);
  BOOST_TEST(refused("").find("got no host") != std::string::npos);
  BOOST_TEST(refused("# nobody\n") == "hosts: wanted lines `HOST slots=N`, got no host");
}

BOOST_AUTO_TEST_CASE(two_hosts_in_a_line_are_refused_because_the_second_would_be_ignored) {
  BOOST_TEST(refused("n1 slots=2 n2 slots=2\n") ==
             "hosts:1: wanted one host with one slots=N in a line, got `n1 slots=2 n2 slots=2`: write each host on a "
             "line of its own");
  BOOST_TEST(refused("n1 slots=1 slots=2\n").find("got `n1 slots=1 slots=2`") != std::string::npos);
  BOOST_TEST(refused("n1 slots=2 max_slots=4\n") == "");
  BOOST_TEST(refused("n0 slots=1\nn1 slots=2 n2\n") ==
             "hosts:2: wanted `HOST slots=N`, got the word `n2` as well: write each host on a line of its own, and "
             "notes after a #");
  BOOST_TEST(refused("n1 n2 slots=2\n").find("got the word `n2` as well") != std::string::npos);
  BOOST_TEST(refused("n1 slots=2 user = me port=22\n").find("got the word `user = me` as well") != std::string::npos);
  BOOST_TEST(refused("n1 slots=2 max_slots=\n").find("got the word `max_slots=` as well") != std::string::npos);
  BOOST_TEST(refused("n1 slots=2 =4\n").find("got the word `=4` as well") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(filters_keep_or_leave_out_as_those_of_deepspeed) {
  BOOST_TEST(included("n2@n1:0,2") == "n1:0,2 n2:0,1");  // hosts are listed in the order of the file
  BOOST_TEST(included("n3") == "n3:0");
  BOOST_TEST(excluded("n2") == "n1:0,1,2,3 n3:0");
  BOOST_TEST(excluded("n1:1,3@n3:0") == "n1:0,2 n2:0,1");
  BOOST_TEST(included("n9") == "--include: wanted hosts of the hostfile, got `n9`");
  BOOST_TEST(included("n2:2") == "--include: wanted slots of n2 from 0 to 1, got `2`");
  BOOST_TEST(excluded("n1@n2@n3") == "--exclude: wanted at least one remaining host, got none");
  BOOST_TEST(shown(filter_hosts(hosts(), "n1", "n2")) ==
             "--include and --exclude cannot be combined: leave out one of the two");
  const auto some = filter_hosts(hosts(), "n1:0,2@n2", "");
  BOOST_TEST((!some->front().is_whole && some->back().is_whole));
}

BOOST_AUTO_TEST_CASE(a_shell_on_the_other_side_sees_the_words_as_they_were) {
  const std::vector<std::string> words = {
      "/usr/bin/printf", "%s|", "a b", "it's", "$(id)", "`id`", "\"", "\\", "", "*", "a\nb"};
  const auto did = troupe::tests::run({"/bin/sh", "-c", shell_line({"/", {{"X", "1 2"}}, words})}, "/");
  BOOST_TEST(did.code == 0, did.err);
  BOOST_TEST(did.out == "a b|it's|$(id)|`id`|\"|\\||*|a\nb|");
}

BOOST_AUTO_TEST_CASE(a_holder_that_is_killed_is_a_lost_connection_and_no_request_to_end_the_job) {
  const auto agent = std::filesystem::path(troupe::places::troupe_binary).parent_path() / "troupe-agent";
  const std::string program =
      "trap 'echo hung up; exit 0' HUP; trap 'echo asked to end; exit 0' TERM; echo ready; "
      "while :; do sleep 0.05; done";
  const auto end_of = [&](const char* role) {
    // The holder has both ends of its input, which therefore does not end before it.
    const auto open_input = [] {
      int ends[2] = {-1, -1};
      if (::pipe(ends) == 0) ::dup2(ends[0], STDIN_FILENO);
    };
    troupe::tests::process held({agent.string(), "hold", role, "/bin/sh", "-c", program}, "/", open_input);
    BOOST_TEST_REQUIRE(held.wait_for("ready"));
    held.send(SIGKILL);
    return held.end().out;
  };
  BOOST_TEST(end_of("--tell").ends_with("ready\nhung up\n"));
  BOOST_TEST(end_of("--leads").ends_with("ready\nasked to end\n"));
}

BOOST_AUTO_TEST_CASE(ssh_is_told_to_ask_nothing_and_to_give_up_soon) {
  const auto line = ssh_command("n1", {"/w", {}, {"troupe"}}, {.port = 2222, .further = {"User=me"}});
  const auto has = [&](const std::string& x) { return std::ranges::find(line, x) != line.end(); };
  BOOST_TEST(
      (line.front() == "ssh" && has("BatchMode=yes") && has("ConnectTimeout=4") && has("User=me") && has("2222")));
  const std::vector<std::string> end(line.end() - 3, line.end());
  BOOST_TEST((end == std::vector<std::string>{"--", "n1", "cd '/w' && exec env 'troupe'"}));
}

BOOST_AUTO_TEST_SUITE_END()
