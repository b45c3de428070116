// Defines the messages between the supervisor of a job, its processes and the agents of other machines. Owns their
// encoding as bytes; leaves who sends which message when to supervision.hpp, process.hpp and agent.hpp. docs/cluster.md
// has a row for each.
//
// A term is the time in which the ranks, their processes and their degrees stay the same. A message that belongs to a
// term carries its number; a message of another term is dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cluster/descriptor.hpp"
#include "core/byte_stream.hpp"
#include "core/error.hpp"

namespace troupe::cluster {

/// Place value that means no process.
inline constexpr uint32_t no_place = ~uint32_t{0};

// ---- Messages from a process to the supervisor

/// First message of a process. Version and configuration must be equal on all processes of a job.
struct hello {
  uint64_t process_id = 0;
  std::string version, configuration;
};
/// Heartbeat, sent in both directions: the sender is alive. Its clock readings serve to compare clocks
/// (clock_offset.hpp). The thread that listens to the link sends it, so a process whose lanes compute still sends it.
struct beat {
  int64_t said_ns = 0;      ///< time of sending by the sender's clock; 0: the sender compares no clocks
  int64_t received_ns = 0;  ///< time by the sender's clock at which it received the receiver's last beat
  int64_t of_ns = 0;        ///< `said_ns` of the last beat that the sender has received
};
/// Sent in both directions: memory or an event of this term, with its descriptor; relayed to the other processes of the
/// term on the sender's machine.
struct offer {
  uint64_t term = 0;
  uint32_t number = 0;
};
/// The ranks of this process are ready. `digest` describes what they plan and train on and must be equal on all
/// processes.
struct ready {
  uint64_t term = 0;
  std::string digest;
  uint64_t step = 0;  ///< number of steps that the run has done when these ranks begin their first step of the term
};
/// The ranks of this process have ended, and it uses no memory of the term any more.
struct quiet {
  uint64_t term = 0;
};
/// A rank of this process cannot continue. The run ends with this error, unless its cause is the loss of another
/// process or of a link between machines.
struct failed {
  uint64_t term = 0;
  core::error_kind kind = core::error_kind::bug;
  std::string text;
  uint32_t lost_place = no_place;  ///< number of the process on another machine to which the sender lost its link
};
/// A call (a request as text, which the session interprets) of the leading process to all other processes of the term.
struct call {
  uint64_t term = 0, number = 0;
  std::string what;
};
/// Answer to a call, or an unrequested note (`number` 0), for the leading process.
struct answer {
  uint64_t term = 0, number = 0;
  uint32_t place = 0;
  std::string what;
};
/// Sent in both directions: a file of a save in memory, with its descriptor if the file is on this machine.
struct kept_file {
  std::string path;
  uint64_t bytes = 0;
  /// In messages to a process: number of a process of the new term whose machine holds the file.
  uint32_t place = 0;
};
/// Sent in both directions: the address at which a process receives bytes from processes of other machines; relayed to
/// all other processes of the term.
struct address {
  uint64_t term = 0;
  uint32_t place = 0;
  std::string host;
  uint16_t port = 0;
};
/// Sent in both directions: the save that is kept under `folder` is complete; its files were written under `written`.
struct kept_save {
  std::string folder, written;
  uint64_t step = 0;
};
/// Sent by the leading process between two steps: its states are kept, so the term may end and another one begin with
/// `data` data ranks; 0: as many as were planned last, if so many are possible.
struct between_steps {
  uint64_t term = 0;
  uint32_t data = 0;
};
/// Sent by the leading process: from the next boundary between steps on, the machine named `host` has no ranks, and a
/// spare machine has them.
struct replace_wanted {
  uint64_t term = 0;
  std::string host;
};
/// The process ends with this exit code, without an error of the run.
struct leaving {
  int32_t code = 0;
};

// ---- Messages from the supervisor to a process

/// A process of a term: the process with number `place`, which runs on machine `machine`, has the ranks
/// [first, first + count). `count` is 0 for a process that only provides files of a save.
struct seat {
  uint32_t place = 0, first = 0, count = 0;
  uint32_t machine = 0;
  friend bool operator==(const seat&, const seat&) = default;
};
struct run_so_far {  ///< totals of all previous terms, sent with begin_term because a process may be new to the run
  struct degree {
    uint64_t step = 0;  ///< number of steps done before this degree took effect
    uint32_t data = 0;
  };
  std::vector<degree> degrees;  ///< number of data ranks and the step from which each was used
  uint64_t steps = 0;           ///< number of steps done, according to the saves in memory
  uint64_t steps_again = 0;     ///< number of `steps` that were done twice, in previous terms
  int64_t lost_ns = 0;          ///< nanoseconds without a running term since the first term began
};
struct begin_term {  ///< order to begin a term, sent to each process that takes part in the term
  uint64_t number = 0;
  uint32_t data = 0;  ///< number of data-parallel ranks in the term
  /// Seats in the order of ranks; the process of the first seat, which has rank 0, leads the run in this term
  std::vector<seat> seats;
  std::string folder;  ///< folder of the save in memory that the term continues from; empty: none
  std::string cause;   ///< reason for the new term
  std::string secret;  ///< secret with which this term's processes authenticate each other over the network
  run_so_far before{};
};
/// Sent to every process of a term when all of them are ready: the term's first step may begin.
struct started {
  uint64_t term = 0;
};
/// Orders a process to stop its ranks. If `is_final`, the run ends with this error; else another term follows.
struct end_term {
  uint64_t term = 0;
  bool is_final = false;
  core::error_kind kind = core::error_kind::peer_lost;
  std::string text;
};
/// More processes are available, or a machine is to be replaced: the leading process sends `between_steps` at the next
/// boundary between steps.
struct join_wanted {
  uint64_t term = 0;
};
struct place_row {  ///< state of one process of the job, for display
  uint32_t place = 0;
  std::string host;  ///< name of the machine of the process; empty if there is one machine only
  uint64_t process_id = 0;
  std::string state;  ///< state of the process: "spare", "resting", "keeper", or name_of(standing)
  uint32_t losses = 0;
  uint32_t first = 0, count = 0;  ///< first rank, and number of ranks, of the process in the term
};
/// States of all processes of the job, sent to the leading process at the start of a term, and at most once per
/// heartbeat when they have changed.
struct roster {
  uint64_t term = 0;
  std::vector<place_row> places;
};
/// The job is over and the receiving process must end.
struct dismissal {};

// ---- Messages between the supervisor and the agent of another machine; an agent starts, watches and reaps processes

/// First message to an agent: how to start its processes. The arguments are those of the first machine; the job's file
/// is sent as text.
struct job_order {
  std::vector<std::string> arguments;
  uint32_t file_argument = 0;  ///< index of the command-line argument that names the configuration file
  std::string file;            ///< text of the configuration file
  std::string folder;  ///< working directory of the first machine's processes; the agent uses it if it exists there
  uint32_t machine = 0;
  std::vector<uint32_t> places;
  int64_t lost_after_ns = 0;
};
/// Tells an agent to start the process with number `place`.
struct start_place {
  uint32_t place = 0;
};
/// Tells an agent to kill and reap the process with number `place`.
struct kill_place {
  uint32_t place = 0;
};
/// Sent by an agent: the process with number `place` has ended, or the link to it.
struct place_ended {
  uint32_t place = 0;
  std::string how;
};
/// Sent in both directions: an encoded message from or to a process of the agent's machine.
struct passed {
  uint32_t place = 0;
  std::string what;
};
/// Sent in both directions: a system signal. A signal from an agent is for the leading process; a signal to an agent is
/// for the process with number `place`.
struct signalled {
  int32_t signal = 0;
  uint32_t place = 0;
};
/// Tells an agent that the job is over and has this exit code.
struct job_over {
  int32_t code = 0;
  std::string why{};     ///< reason why the job ended; empty if it ended well or the leading process reported it
  bool goes_on = false;  ///< true if the job continues without the agent's machine
};

/// Asks an agent a question of `troupe doctor`, before there is a job.
struct machine_question {
  uint64_t number = 0;
  std::string what;
};
/// Answer of an agent to a machine_question, as bytes.
struct machine_answer {
  uint64_t number = 0;
  std::string what;
};

using message =
    std::variant<hello, beat, offer, ready, quiet, failed, call, answer, kept_file, kept_save, between_steps, leaving,
                 begin_term, started, end_term, join_wanted, dismissal, address, job_order, start_place, kill_place,
                 place_ended, passed, signalled, job_over, machine_question, machine_answer, roster, replace_wanted>;

/// A message, and the file descriptors that are sent with it.
struct parcel {
  message what;
  std::vector<shared_descriptor> with{};
};

/// Returns the bytes of a message, for use in a frame.
std::string encode(const message& m);
/// Returns the message in `bytes`. Errors: mismatch, for bytes that are not a message.
core::result<message> decode(std::string_view bytes);
/// Returns the name of the message's kind, for errors and logs.
std::string_view name_of(const message& m);

}  // namespace troupe::cluster
