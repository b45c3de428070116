// Tests programs that are started without stdin, stdout or stderr.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(descriptors)

using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

/// Closes stdin, stdout and stderr; the pipes of the test stay open under other numbers.
void close_standard_descriptors() {
  (void)!::dup(STDOUT_FILENO);
  (void)!::dup(STDERR_FILENO);
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(number);
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_file_of_a_run_gets_the_number_of_a_missing_standard_descriptor) {
  const auto beside = (fs::path(troupe::places::troupe_binary).parent_path() / "troupe-train").string();
  for (const auto& program : {std::string(troupe::places::troupe_binary), beside}) {
    auto yaml = replaced(smallest, "steps: 6\n", "steps: 1000000\ncheckpoint: {every_steps: 2}\n");
    yaml = replaced(yaml, "{stage: 3,", "{stage: 3, offload_optimizer: {device: nvme, nvme_path: swap},");
    const command_folder f(yaml);
    process p({program, "train", "job.yaml"}, f.folder.path(), close_standard_descriptors);
    const auto latest = f.folder / "out/checkpoints/latest";
    while (!fs::exists(latest)) BOOST_TEST_REQUIRE(p.wait_for_work(std::chrono::milliseconds(20)));
    for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      BOOST_TEST(p.opened(number) == "/dev/null", program << ": " << number << " is " << p.opened(number));
    p.send(SIGTERM);
    BOOST_TEST(p.end().code == 128 + SIGTERM);
    const std::string log = scratch_folder::read(f.folder / "out/logs/run.log");
    for (const std::string name : {"output", "error"})
      BOOST_TEST(has(log, "standard " + name + " was closed when the run was started: nobody reads it\n"), log);
    check_exit(0, f.troupe({"checkpoint", "verify", "out/checkpoints"}));
  }
}

BOOST_AUTO_TEST_CASE(a_run_whose_output_is_thrown_away_on_purpose_has_no_log_about_it) {
  const command_folder f;
  const auto r = f.troupe({"train", "job.yaml"}, [] { ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO); });
  BOOST_TEST(r.code == 0, r.err);
  BOOST_TEST(!fs::exists(f.folder / "out/logs"));
}

BOOST_AUTO_TEST_CASE(processes_of_a_run_without_stdout_say_it_in_the_log_of_the_leading_one) {
  const command_folder f(smallest + "cluster: {processes: ranks}\n");
  const auto r = f.troupe({"train", "job.yaml"}, [] { ::close(STDOUT_FILENO); });
  BOOST_TEST(r.code == 0, r.err);
  const std::string log = scratch_folder::read(f.folder / "out/logs/process0.log");
  BOOST_TEST(has(log, "standard output was closed when the run was started: nobody reads it\n"), log);
}

BOOST_AUTO_TEST_CASE(output_of_a_command_without_stdout_lands_in_no_file) {
  const command_folder f;
  const std::vector<std::string> tokenize{"data", "tokenize", "corpus.txt", "--tokenizer", "bytes", "--output"};
  auto to = [&](const char* name) {
    auto out = tokenize;
    out.emplace_back(name);
    return out;
  };
  BOOST_TEST(f.troupe(to("a.bin")).code == 0);
  const auto closed = check_exit(0, f.troupe(to("b.bin"), close_standard_descriptors));
  BOOST_TEST(closed.out + closed.err == "");
  BOOST_TEST((scratch_folder::read(f.folder / "a.bin") == scratch_folder::read(f.folder / "b.bin")));
}

BOOST_AUTO_TEST_SUITE_END()
