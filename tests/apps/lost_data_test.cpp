// Tests data files that are truncated while a run reads them, and a standard output that cannot be written.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(lost_data)

using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const std::string saving = smallest + "checkpoint: {every_steps: 100000}\n";

void into_a_full_device() {
  const int full = ::open("/dev/full", O_WRONLY);
  if (full < 0 || ::dup2(full, STDOUT_FILENO) < 0) ::_exit(125);
}

/// Returns the result of a run whose text file is truncated to 0 bytes after the second step.
finished cut_under_way(const command_folder& f, const std::string& text, const std::vector<std::string>& more = {}) {
  std::vector<std::string> command{troupe::places::troupe_binary, "train", "job.yaml", "--steps", "100000", "--json"};
  command.insert(command.end(), more.begin(), more.end());
  process p(command, f.folder.path());
  BOOST_REQUIRE(p.wait_for("\"step\":2,"));
  fs::resize_file(f.folder / text, 0);
  return p.end();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_text_cut_under_a_run_ends_it_with_its_name_and_its_states_are_saved) {
  const command_folder f(saving);
  const auto text = scratch_folder::read(f.folder / "corpus.txt");
  const auto r = check_exit(1, cut_under_way(f, "corpus.txt"));
  BOOST_TEST(has(r.err, "corpus.txt': it had 20000 bytes when it was opened and has become shorter"), r.err);
  BOOST_REQUIRE(fs::exists(f.folder / "out/checkpoints/latest"));
  const auto last = scratch_folder::read(f.folder / "out/checkpoints/latest");
  // After the text is restored, the run resumes from its checkpoint and ends like a run with the text unchanged.
  f.folder.write("corpus.txt", text);
  const uint64_t step = std::stoull(last.substr(last.find_first_of("0123456789")));
  BOOST_TEST(step >= 2U);
  const auto steps = fmt::to_string(step + 2);
  const auto again = check_exit(0, f.troupe({"train", "job.yaml", "--steps", steps, "--json"}));
  const auto whole = f.troupe({"train", "job.yaml", "--steps", steps, "--json", "--set", "output=whole"});
  const auto last_step = [](const std::string& out) {
    const auto at = out.rfind("\"event\":\"step\"");
    const auto loss = out.find("\"loss\":", at);
    return out.substr(loss, out.find(',', loss) - loss);
  };
  BOOST_TEST(last_step(again.out) == last_step(whole.out));
}

BOOST_AUTO_TEST_CASE(without_checkpoints_nothing_is_saved_and_micro_batches_in_mid_step_are_no_exception) {
  const command_folder f;
  const auto r = check_exit(1, cut_under_way(f, "corpus.txt", {"--set", "gradient_accumulation_steps=4"}));
  BOOST_TEST(has(r.err, "has become shorter"), r.err);
  BOOST_TEST(!fs::exists(f.folder / "out/checkpoints"));
}

BOOST_AUTO_TEST_CASE(tokens_cut_under_a_run_end_it_with_their_name) {
  const command_folder f(replaced(saving, "corpus.txt", "corpus.bin"));
  std::string tokens;
  for (const char c : scratch_folder::read(f.folder / "corpus.txt")) (tokens += c) += '\0';
  f.folder.write("corpus.bin", tokens);
  const auto r = check_exit(1, cut_under_way(f, "corpus.bin"));
  BOOST_TEST(has(r.err, "corpus.bin': it had 40000 bytes when it was opened and has become shorter"), r.err);
  BOOST_TEST(fs::exists(f.folder / "out/checkpoints/latest"));
}

BOOST_AUTO_TEST_CASE(a_standard_output_that_takes_nothing_is_an_error_of_every_command) {
  const command_folder f;
  f.folder.write("tokens.bin", std::string(64, 'a'));
  const std::vector<std::string> commands[] = {{"config", "check", "job.yaml", "--json"},
                                               {"config", "explain", "job.yaml", "--json"},
                                               {"doctor", "--json"},
                                               {"data", "inspect", "tokens.bin"},
                                               {"plan", "job.yaml"},
                                               {"train", "job.yaml", "--json"},
                                               {"train", "--help"},
                                               {"--version"}};
  for (const auto& command : commands) {
    const auto r = f.troupe(command, into_a_full_device);
    BOOST_TEST(r.code == 1, command.front() << ": " << r.code);
    BOOST_TEST(has(r.err, "troupe: error: cannot write all of the output"), command.front() << ": " << r.err);
  }
}

BOOST_AUTO_TEST_SUITE_END()
