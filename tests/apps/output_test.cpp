// Tests that a slow or missing reader of a run's output neither delays the run nor ends it, and that the run reports
// lost lines.
#include <fcntl.h>
#include <sys/ioctl.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <thread>
#include <utility>

#include "apps/base/console.hpp"
#include "tests/apps/pseudo_terminal.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(output)

using namespace troupe;
using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

struct pipe_ends {
  int in = -1, out = -1;
  pipe_ends() {
    int both[2];
    if (::pipe2(both, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    in = both[0];
    out = both[1];
    ::fcntl(out, F_SETPIPE_SZ, 4096);
  }
  pipe_ends(const pipe_ends&) = delete;
  pipe_ends& operator=(const pipe_ends&) = delete;
  ~pipe_ends() {
    ::close(in);
    ::close(out);
  }
};

const std::string kinds_of_output_job[] = {"", "cluster: {processes: ranks}\n"};

std::string written_job(const std::string& steps, const std::string& more) {
  return replaced(smallest, "steps: 6", "steps: " + steps) +
         "checkpoint: {every_steps: 1000000}\ntelemetry: {json_lines: true}\n" + more;
}
bool is_saved(const command_folder& f) { return fs::exists(f.folder / "out/checkpoints/latest"); }
std::string log_of(const command_folder& f, const std::string& more) {
  return scratch_folder::read(f.folder / (more.empty() ? "out/logs/run.log" : "out/logs/process0.log"));
}
void give_stdout(int descriptor) { ::dup2(descriptor, STDOUT_FILENO); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_relay_waits_for_nobody_and_leaves_out_whole_lines) {
  pipe_ends ends;
  auto relay = std::make_unique<apps::output_relay>(ends.out, "it");
  std::string told, got;
  relay->on_loss([&](const std::string& line) { told = line; });
  const std::string line = std::string(999, 'x') + "\n";
  for (size_t i = 0; i < 4 * apps::output_waits_bytes_max / line.size(); ++i) relay->write(line);
  BOOST_TEST(told == "it cannot be written (it is not read): the run continues without it");
  std::thread reader([&] {
    char block[4096];
    for (ssize_t n = 0; (n = ::read(ends.in, block, sizeof block)) > 0;) got.append(block, static_cast<size_t>(n));
  });
  relay->drain(std::chrono::seconds(60));
  BOOST_TEST(relay->loss() == "it is not read");
  relay.reset();
  ::close(std::exchange(ends.out, -1));
  reader.join();
  BOOST_TEST(got.size() % line.size() == 0U);
  BOOST_TEST((got.size() > apps::output_waits_bytes_max && got.size() < 2 * apps::output_waits_bytes_max));
}

BOOST_AUTO_TEST_CASE(a_relay_gives_up_a_reader_that_takes_nothing) {
  const pipe_ends ends;
  apps::output_relay relay(ends.out, "it");
  relay.write(std::string(10'000, 'x') + "\n");
  relay.drain(std::chrono::milliseconds(1));
  BOOST_TEST(relay.loss() == "it is not read");
}

BOOST_AUTO_TEST_CASE(a_pipe_that_is_full_and_unread_holds_up_neither_a_run_nor_its_end) {
  for (const auto& more : kinds_of_output_job) {
    const command_folder f(written_job("1000000", more));
    const pipe_ends ends;
    process run({places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path(),
                [&] { give_stdout(ends.out); });
    // The loop waits for more steps than a pipe of 4 KiB can buffer lines.
    for (int i = 0; i < 3000 && lines_of(scratch_folder::read(f.folder / "out/steps.jsonl")) < 100; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    run.send(SIGTERM);
    const auto ended = run.end(std::chrono::seconds(30));
    BOOST_TEST(ended.code == 128 + SIGTERM, ended.err);
    BOOST_TEST(is_saved(f));
    BOOST_TEST(has(ended.err, "cannot write all of the output: it is not read"), ended.err);
  }
}

BOOST_AUTO_TEST_CASE(output_that_is_refused_leaves_the_run_whole_and_gives_code_1) {
  for (const auto& more : kinds_of_output_job)
    for (const bool is_full : {true, false}) {
      BOOST_TEST_INFO_SCOPE("is full " << is_full);
      const command_folder f(written_job("6", more));
      const auto r = f.troupe({"train", "job.yaml", "--json"}, [&] {
        std::signal(SIGPIPE, SIG_DFL);
        if (is_full) return give_stdout(::open("/dev/full", O_WRONLY | O_CLOEXEC));
        int both[2] = {-1, -1};
        if (::pipe2(both, O_CLOEXEC) != 0) ::_exit(125);
        ::close(both[0]);
        give_stdout(both[1]);
      });
      const std::string why = is_full ? "No space left on device" : "Broken pipe";
      BOOST_TEST(r.code == 1, r.err);
      BOOST_TEST(has(r.err, "cannot write all of the output: " + why), r.err);
      BOOST_TEST(is_saved(f));
      BOOST_TEST(lines_of(scratch_folder::read(f.folder / "out/steps.jsonl")) >= 6U);
      BOOST_TEST(has(log_of(f, more), "standard output cannot be written (" + why + ")"), log_of(f, more));
    }
}

BOOST_AUTO_TEST_CASE(a_log_that_is_a_link_is_left_alone_and_that_is_said) {
  const command_folder f(written_job("2", ""));
  const auto theirs = f.folder.write("theirs", "secret\n");
  fs::create_directories(f.folder / "out/logs");
  for (const char* name : {"out/logs/run.log", "out/logs/all.log"}) fs::create_symlink(theirs, f.folder / name);
  const auto r = f.troupe({"train", "job.yaml"}, [] { give_stdout(::open("/dev/full", O_WRONLY | O_CLOEXEC)); });
  BOOST_TEST(r.code == 1, r.err);
  BOOST_TEST(has(r.err, "this log is not written: cannot append to '"), r.err);
  BOOST_TEST(has(r.err, "run.log': wanted a regular file, got a link"), r.err);
  BOOST_TEST(scratch_folder::read(theirs) == "secret\n");
}

BOOST_AUTO_TEST_CASE(a_run_without_standard_output_ends_well) {
  const command_folder f(written_job("6", ""));
  BOOST_TEST(f.troupe({"train", "job.yaml"}, [] { ::close(STDOUT_FILENO); }).code == 0);
}

BOOST_AUTO_TEST_CASE(a_line_that_is_written_over_fits_a_terminal_of_20_columns) {
  const command_folder f;
  pseudo_terminal t({places::troupe_binary, "train", "job.yaml"}, f.folder.path(), [] {
    winsize size{};
    size.ws_row = 10;
    size.ws_col = 20;
    ::ioctl(STDOUT_FILENO, TIOCSWINSZ, &size);
  });
  BOOST_TEST(t.end() == 0);
  const std::string begin = "\r\x1b[K";
  size_t bars = 0;
  for (size_t at = t.shown().find(begin + "step"); at != std::string::npos;
       at = t.shown().find(begin + "step", at + 1)) {
    BOOST_TEST_INFO_SCOPE("at " << at);
    const size_t from = at + begin.size();
    BOOST_TEST(t.shown().find_first_of("\r\n", from) - from <= 19U);
    ++bars;
  }
  BOOST_TEST(bars > 0U, t.shown());
}

BOOST_AUTO_TEST_CASE(a_terminal_without_a_cursor_gets_lines) {
  const command_folder f;
  pseudo_terminal t({places::troupe_binary, "train", "job.yaml"}, f.folder.path(), [] { ::setenv("TERM", "dumb", 1); });
  BOOST_TEST(t.end() == 0);
  BOOST_TEST(!has(t.shown(), "\x1b"), t.shown());
  BOOST_TEST(has(t.shown(), "step 6/6  loss"), t.shown());
}

BOOST_AUTO_TEST_SUITE_END()
