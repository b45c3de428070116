// Tests that a run that trains answers requests and follows commands through the socket in its folder.
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/run/asking/ask_socket.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(ask)

using namespace troupe;
using namespace troupe::tests;
using nlohmann::json;

namespace {

struct asked_run {
  command_folder f;
  process run;

  explicit asked_run(const std::string& yaml)
      : f(yaml), run({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path()) {
    BOOST_REQUIRE(run.wait_for("\"step\":3,"));
  }
  json ask(const std::string& what) const {
    const auto told = f.troupe({what, "out", "--json"});
    BOOST_TEST_CONTEXT(what) BOOST_REQUIRE_MESSAGE(told.code == 0, told.err);
    return json::parse(told.out);
  }
};

const std::string long_run = replaced(smallest, "steps: 6", "steps: 100000");

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_tells_its_state_pauses_goes_on_saves_and_stops) {
  asked_run r(long_run);
  struct stat socket {};
  BOOST_REQUIRE(::stat((r.f.folder / "out/troupe.sock").c_str(), &socket) == 0);
  BOOST_TEST((socket.st_mode & 0777U) == 0600U);
  const auto status = r.ask("status");
  BOOST_TEST(status["phase"] == "training");
  BOOST_TEST(status["step"].get<uint64_t>() >= 3U);
  BOOST_TEST(status["steps"] == 100000);
  BOOST_TEST(status["loss"].get<double>() > 0);

  const auto ranks = r.ask("diagnose")["ranks"];
  BOOST_REQUIRE(ranks.size() == 2U);
  BOOST_TEST(r.f.troupe({"diagnose", "out"}).out.starts_with("rank "));

  (void)r.ask("pause");
  const auto paused = r.ask("status");
  BOOST_TEST(paused["phase"] == "paused");
  ::usleep(200'000);
  BOOST_TEST(r.ask("status")["step"] == paused["step"]);
  // Requests for a checkpoint also work while the run is paused.
  const std::string saved = r.ask("save")["done"];
  BOOST_TEST(has(saved, "out/checkpoints/step-"), saved);
  BOOST_TEST(std::filesystem::exists(r.f.folder /
                                     ("out/checkpoints/" + saved.substr(saved.rfind('/') + 1) + "/manifest.json")));
  BOOST_TEST(r.ask("save")["done"] == saved);  // the step is already saved, so the request returns the same checkpoint
  (void)r.ask("resume");
  for (int i = 0; i < 200 && r.ask("status")["step"] == paused["step"]; ++i) ::usleep(10'000);
  BOOST_TEST(r.ask("status")["step"].get<uint64_t>() > paused["step"].get<uint64_t>());
  const std::string later = r.ask("save")["done"];
  BOOST_TEST(later != saved);

  (void)r.ask("stop");
  const auto ended = check_exit(0, r.run.end());
  // Because checkpoints were requested, the run also saves its last step.
  const auto end = ended.out.rfind("{\"event\":\"end\",\"steps\":");
  BOOST_TEST_REQUIRE(end != std::string::npos, ended.out);
  const auto summary = json::parse(ended.out.substr(end));
  char last[32];
  std::snprintf(last, sizeof last, "step-%08llu", summary["steps"].get<unsigned long long>());
  BOOST_TEST(summary["model"] == (r.f.folder / "out/checkpoints" / last).string());
  BOOST_TEST(!std::filesystem::exists(r.f.folder / "out/troupe.sock"));
  const auto nobody = check_exit(2, r.f.troupe({"status", "out"}));
  BOOST_TEST(has(nobody.err, "no run is at work there"), nobody.err);
  BOOST_TEST(r.f.troupe({"status", "nowhere"}).code == 2);
}

BOOST_AUTO_TEST_CASE(a_pause_and_a_save_change_no_bit) {
  const std::string job = long_run + "telemetry: {json_lines: true}\n";
  const auto losses = [](const command_folder& f) {
    std::string out;
    std::istringstream lines(scratch_folder::read(f.folder / "out/steps.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto x = json::parse(line);
      if (x.contains("grad_norm")) out += x["loss"].dump() + " " + x["grad_norm"].dump() + "\n";
    }
    return out;
  };
  asked_run r(job);
  (void)r.ask("pause");
  (void)r.ask("save");
  const auto paused = r.ask("status")["step"].get<uint64_t>();
  (void)r.ask("resume");
  BOOST_REQUIRE(r.run.wait_for(fmt::format("\"step\":{},", paused + 10)));
  (void)r.ask("stop");
  BOOST_REQUIRE(r.run.end().code == 0);
  const std::string got = losses(r.f);
  BOOST_TEST(lines_of(got) >= paused + 10);
  const command_folder plain(job);
  BOOST_REQUIRE(plain.troupe({"train", "job.yaml", "--steps", fmt::to_string(lines_of(got))}).code == 0);
  BOOST_TEST((got == losses(plain)));
}

BOOST_AUTO_TEST_CASE(a_paused_run_ends_when_it_is_interrupted) {
  asked_run r(long_run);
  (void)r.ask("pause");
  r.run.send(SIGINT);
  BOOST_TEST(r.run.end().code == 130);
}

BOOST_AUTO_TEST_CASE(a_socket_that_a_killed_run_has_left_is_replaced) {
  const command_folder f(long_run);
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    process run({troupe::places::troupe_binary, "train", "job.yaml", "--json", "--fresh"}, f.folder.path());
    BOOST_REQUIRE(run.wait_for("\"step\":3,"));
    BOOST_TEST(f.troupe({"status", "out"}).code == 0);
    run.send(SIGKILL);
    run.end();
    const auto gone = check_exit(2, f.troupe({"status", "out"}));
    BOOST_TEST(has(gone.err, "no run is at work there"), gone.err);
  }
}

BOOST_AUTO_TEST_CASE(many_clients_and_bad_ones_hold_up_nobody) {
  const scratch_folder folder;
  const auto socket = apps::ask_socket::open(folder.path(), [](const std::string& question) {
    return [question, left = std::make_shared<int>(question == "slow" ? 5 : 0)]() -> std::optional<std::string> {
      return (*left)-- > 0 ? std::nullopt : std::optional("{\"you said\":\"" + question + "\"}");
    };
  });
  BOOST_REQUIRE_MESSAGE(socket.has_value(), (socket ? "" : socket.error().text));
  const auto connect = [&] {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    (folder / apps::socket_name).string().copy(at.sun_path, sizeof at.sun_path - 1);
    BOOST_REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    return fd;
  };
  const int silent = connect(), endless = connect(), gone = connect();
  const std::string bytes(apps::question_bytes_max + 100, 'x');
  (void)::send(endless, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  ::close(gone);
  for (const char* what : {"a", "slow", "b"}) {
    BOOST_TEST_INFO_SCOPE(what);
    const auto told = check_ok(apps::ask_run(folder.path(), what));
    BOOST_TEST(*told == std::string("{\"you said\":\"") + what + "\"}");
  }
  char one = 0;
  // The server has closed the connection because the request was too long.
  BOOST_TEST(::recv(endless, &one, 1, 0) <= 0);
  ::close(silent);
  ::close(endless);
}

BOOST_AUTO_TEST_CASE(the_process_that_leads_answers_for_all_also_while_ranks_hang) {
  const command_folder f(replaced(long_run, "{data: 2}", "{data: 2}\ncluster: {processes: ranks, lost_after: 20s}"));
  process run({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
  BOOST_REQUIRE(run.wait_for("\"step\":3,"));
  // Stopping the other process makes rank 0 wait for rank 1.
  pid_t other = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream in(entry.path() / "environ", std::ios::binary);
    std::error_code e;
    for (std::string x; std::getline(in, x, '\0');)
      if (x.starts_with("TROUPE_LINK=") && x.ends_with(":1") &&
          std::filesystem::read_symlink(entry.path() / "cwd", e) == f.folder.path())
        other = std::stoi(entry.path().filename());
  }
  BOOST_REQUIRE(other > 0);
  ::kill(other, SIGSTOP);
  // On a busy machine rank 0 may start to wait late, so the request is repeated.
  finished told;
  for (int tries = 0; tries < 100 && !has(told.out, "waits for rank 1"); ++tries) {
    ::usleep(100'000);
    told = f.troupe({"diagnose", "out"});
  }
  ::kill(other, SIGCONT);
  BOOST_TEST(told.code == 0, told.err);
  BOOST_TEST(has(told.out, "waits for rank 1"), told.out);
  BOOST_TEST(has(told.out, "rank 1 (process 1, term 1): "), told.out);
  BOOST_TEST(f.troupe({"stop", "out"}).code == 0);
  BOOST_TEST(run.end().code == 0);
}

BOOST_AUTO_TEST_CASE(the_status_says_which_process_has_which_ranks_and_who_waits) {
  const command_folder f(
      replaced(long_run, "{data: 2}", "{data: 2}\ncluster: {processes: ranks, spares: 1, lost_after: 20s}"));
  process run({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
  BOOST_REQUIRE(run.wait_for("\"step\":3,"));
  const auto told = f.troupe({"status", "out"});
  for (const char* part :
       {"\nterm 1\n", "process 0, pid ", ": working, rank 0\n", ": working, rank 1\n", "process 2, pid ", ": spare\n"})
    BOOST_TEST(has(told.out, part), "wanted `" << part << "` in " << told.out);
  const auto x = nlohmann::json::parse(f.troupe({"status", "out", "--json"}).out);
  BOOST_TEST_REQUIRE(x.at("processes").size() == 3U);
  const pid_t lost = x["processes"][1]["pid"];
  ::kill(lost, SIGKILL);  // after this loss, the spare process takes over the ranks
  BOOST_TEST(run.wait_for_error("term 2: 2 data ranks"));
  auto after = nlohmann::json::object();
  for (int tries = 0; tries < 100 && after.value("term", 0) != 2; ++tries) {
    ::usleep(100'000);
    const auto again = f.troupe({"status", "out", "--json"});
    if (again.code == 0) after = nlohmann::json::parse(again.out);
  }
  BOOST_TEST((after["processes"][2]["state"] == "working" && after["processes"][2]["ranks"][1] == 1), after.dump());
  BOOST_TEST(after["processes"][1]["losses"] == 1);
  BOOST_TEST(f.troupe({"stop", "out"}).code == 0);
  BOOST_TEST(run.end().code == 0);
}

BOOST_AUTO_TEST_CASE(an_answer_of_many_ranks_arrives_whole_and_one_that_fails_is_an_error) {
  const scratch_folder folder;
  const std::string long_answer(5'000'000, 'x');
  auto socket = apps::ask_socket::open(folder.path(), [&](const std::string& question) -> apps::pending_answer {
    if (question == "early") throw std::runtime_error("nothing is known");
    if (question == "late")
      return []() -> std::optional<std::string> { throw std::runtime_error("nothing was found"); };
    return [&] { return std::optional(long_answer); };
  });
  BOOST_REQUIRE(socket.has_value());
  const auto whole = check_ok(apps::ask_run(folder.path(), "all"));
  BOOST_TEST((*whole == long_answer));
  BOOST_TEST(apps::ask_run(folder.path(), "early").value() == R"({"error":"no answer: nothing is known"})");
  BOOST_TEST(apps::ask_run(folder.path(), "late").value() == R"({"error":"no answer: nothing was found"})");
}

BOOST_AUTO_TEST_CASE(a_folder_whose_name_is_no_utf_8_is_told_of_as_well_as_it_can_be) {
  const command_folder f;
  const auto odd = f.folder.path() / "caf\351";
  std::filesystem::create_directory(odd);
  std::filesystem::copy(f.folder / "corpus.txt", odd / "corpus.txt");
  std::ofstream(odd / "job.yaml") << long_run << "checkpoint: {every_steps: 2}\n";
  process run({troupe::places::troupe_binary, "train", "job.yaml", "--json"}, odd);
  BOOST_REQUIRE(run.wait_for("\"step\":5,"));
  for (const char* what : {"save", "status", "diagnose", "stop"}) {
    const auto told = tests::run({troupe::places::troupe_binary, what, "out", "--json"}, odd);
    BOOST_TEST(told.code == 0, what << ": " << told.err);
    BOOST_TEST(json::parse(told.out, nullptr, false).is_object(), told.out);
  }
  BOOST_TEST(run.end().code == 0);
}

BOOST_AUTO_TEST_SUITE_END()
