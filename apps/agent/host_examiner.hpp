// Answers the questions of `troupe doctor --cluster` on a host: examines the machine, the folder of the job's output
// and the job's files, and measures the network to other hosts. Owns the byte mover that it measures with.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/agent/doctor_questions.hpp"

namespace troupe::net {
class tls_mover;
}

namespace troupe::apps {

struct examiner_setup {
  std::filesystem::path program;  ///< path of troupe-train, the program that computes
  std::string configuration;      ///< digest of this host's own configuration file; empty: this host has no such file
  std::string address;            ///< address on which this host receives bytes
};

class host_examiner {
 public:
  explicit host_examiner(examiner_setup setup);
  ~host_examiner();
  host_examiner(const host_examiner&) = delete;
  host_examiner& operator=(const host_examiner&) = delete;

  /// Sets the address on which this host receives bytes from now on.
  void listen_at(std::string address) { setup_.address = std::move(address); }
  /// Closes the connections to other hosts and ends the measurements.
  void end();

  /// Decodes the question, executes it, and returns the encoded answer. Blocks until the measurement that the question
  /// requests has ended.
  std::string answer(const std::string& question);

 private:
  core::result<host_facts> follow(const look_question& q);
  core::result<mover_place> follow(const open_question& q);
  core::result<no_answer> follow(const connect_question& q);
  core::result<pair_speed> follow(const measure_question& q);

  examiner_setup setup_;
  std::unique_ptr<net::tls_mover> mover_;
  std::unique_ptr<pair_meter> meter_;
  uint32_t place_ = 0;
};

/// Returns a text of all that can change the bits of matrix products on a machine: the processor's maker, the
/// instruction sets in `flags` that matter, and `capability`, the value of ATEN_CPU_CAPABILITY, which limits the
/// instructions of LibTorch; null: not set.
std::string product_instructions(const std::string& processor, const std::vector<std::string>& flags,
                                 const char* capability);

}  // namespace troupe::apps
