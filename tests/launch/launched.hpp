// Owns a job whose file contains nothing about machines except the paths of their certificates, and checks that its
// losses are those of one process. The tests start the job.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/machines/host_commands.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/survive/job_of_processes.hpp"

namespace troupe::tests {

using words = std::vector<std::string>;

inline words operator+(words a, const words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

/// Owns the job's folder; the constructor creates certificates for `hosts`.
class launched {
 public:
  explicit launched(const words& hosts, const std::string& cluster = "") {
    std::ofstream(folder_ / "job.yaml")
        << "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 2, n_positions: 32, vocab_size: 256}\n"
           "data: {text: "
        << troupe::places::source_dir
        << "/examples/corpus.txt}\nseed: 1\nsteps: 4\ntrain_batch_size: 4\nzero_optimization: {stage: 2}\n"
           "telemetry: {json_lines: true}\ncluster:\n"
           "  tls: {ca: \"certs/{host}/ca.crt\", certificate: \"certs/{host}/host.crt\", key: "
           "\"certs/{host}/host.key\"}\n"
        << cluster;
    make_certificates(troupe::places::troupe_binary, folder_.path(), words{"other"} + hosts);
  }

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  /// Returns the arguments that follow `troupe train`, or `troupe launch` and its options.
  [[nodiscard]] static words job(const std::string& output, const words& more = {}) {
    return words{"job.yaml", "--fresh", "--set", "output=" + output} + more;
  }
  [[nodiscard]] static words train(const std::string& output, const words& more = {}) {
    return words{troupe::places::troupe_binary, "train"} + job(output, more);
  }
  /// Checks that the job ran with `ranks` ranks and, with the options `more`, had the losses of one process, and that
  /// no process is left.
  void has_the_losses_of_one_process(const finished& did, uint32_t ranks, const words& more = {}) const {
    BOOST_TEST_REQUIRE(did.code == 0, did.out << did.err);
    const words alone{"--quiet", "--set", fmt::format("parallel.data={}", ranks), "--set", "cluster.processes=one"};
    const auto one = run(train("one", more + alone), folder_.path());
    BOOST_TEST_REQUIRE(one.code == 0, one.err);
    const auto wanted = steps_of(folder_ / "one");
    BOOST_TEST(wanted.size() == 4U);
    const auto different = first_difference(wanted, steps_of(folder_ / "many"));
    BOOST_TEST(!different, different.value_or(""));
    BOOST_TEST(places_in(folder_.path()).empty());
  }

 private:
  scratch_folder folder_;
};

}  // namespace troupe::tests
