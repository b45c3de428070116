// What the supervisor of a job, its processes and the agents of other machines tell each other. Owns their form as
// bytes; who says what when is supervision.hpp's, process.hpp's and agent.hpp's. docs/cluster.md has a row for each.
//
// A term is the time in which the ranks, their processes and their degrees stay the same. What belongs to a term
// carries its number: what is of another term is dropped.
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

/// No process.
inline constexpr uint32_t no_place = ~uint32_t{0};

// ---- process -> supervisor

/// I am here. Two processes of one job say the same version and configuration.
struct hello {
  uint64_t process_id = 0;
  std::string version, configuration;
};
/// Both ways: I am alive, and what my clock says, by which clocks are compared (clock_offset.hpp). From no lane's
/// thread.
struct beat {
  int64_t said_ns = 0;   ///< on the sender's clock; 0: it compares no clocks
  int64_t heard_ns = 0;  ///< on the sender's clock: when it heard the other's last one
  int64_t of_ns = 0;     ///< that one's `said_ns`
};
/// Both ways: memory or an event of this term, with its descriptor; to all other processes of the term.
struct offer {
  uint64_t term = 0;
  uint32_t number = 0;
};
/// My ranks are there. Equal on all processes: what they plan and train on.
struct ready {
  uint64_t term = 0;
  std::string digest;
  uint64_t step = 0;  ///< steps done that its ranks begin with
};
/// My ranks have ended, nothing of the term's memory is used any more.
struct quiet {
  uint64_t term = 0;
};
/// A rank of mine cannot continue, and no loss is the reason: the run ends.
struct failed {
  uint64_t term = 0;
  core::error_kind kind = core::error_kind::bug;
  std::string text;
  uint32_t lost_place = no_place;  ///< of another machine, to which this process has lost its link
};
/// From the process that leads to all others of the term.
struct call {
  uint64_t term = 0, number = 0;
  std::string what;
};
/// To the process that leads: of a call, or unasked (`number` 0).
struct answer {
  uint64_t term = 0, number = 0;
  uint32_t place = 0;
  std::string what;
};
/// Both ways: a file of a save in memory, with its descriptor where it lies on this machine.
struct kept_file {
  std::string path;
  uint64_t bytes = 0;
  /// To a process: one in the new term on whose machine it lies.
  uint32_t place = 0;
};
/// Both ways: where this process takes bytes from those of other machines; to all of them.
struct address {
  uint64_t term = 0;
  uint32_t place = 0;
  std::string host;
  uint16_t port = 0;
};
/// Both ways: the save that is kept under `folder` is whole; its files were written under `written`.
struct kept_save {
  std::string folder, written;
  uint64_t step = 0;
};
/// From the process that leads, between two steps: its states are kept, the term may end for another one with so many
/// data ranks; 0: as many as were planned last, where there can be so many.
struct between_steps {
  uint64_t term = 0;
  uint32_t data = 0;
};
/// From the process that leads: the machine named `host` rests at the next boundary, and a spare one takes its place.
struct replace_wanted {
  uint64_t term = 0;
  std::string host;
};
/// What a process is in, for people.
struct state_text {
  uint64_t question = 0;
  uint32_t place = 0;
  std::string text;
};
/// I end in good order.
struct leaving {
  int32_t code = 0;
};

// ---- supervisor -> process

/// Consecutive ranks of a process, on this machine.
struct seat {
  uint32_t place = 0, first = 0, count = 0;
  uint32_t machine = 0;
  friend bool operator==(const seat&, const seat&) = default;
};
struct run_so_far {  ///< what terms before have come to: a process that is new to the run cannot know it
  struct degree {
    uint64_t step = 0;  ///< so many steps were done before it
    uint32_t data = 0;
  };
  std::vector<degree> degrees;  ///< data ranks, from which step on
  uint64_t steps = 0;           ///< done, as saves in memory tell
  uint64_t steps_again = 0;     ///< of these, done once more in terms before
  int64_t lost_ns = 0;          ///< without a term, since the first one began
};
struct begin_term {  ///< to each process that has a seat in it
  uint64_t number = 0;
  uint32_t data = 0;        ///< data ranks
  std::vector<seat> seats;  ///< in the order of ranks; the first leads
  std::string folder;       ///< of the save in memory that it continues from; empty: none
  std::string cause;        ///< why there is another term than before
  std::string secret;       ///< known to this term's processes alone: by it they trust each other over the network
  run_so_far before{};
};
/// All processes are ready.
struct started {
  uint64_t term = 0;
};
/// Give your ranks up. Where `is_final`, the run ends with this error; else another term follows.
struct end_term {
  uint64_t term = 0;
  bool is_final = false;
  core::error_kind kind = core::error_kind::peer_lost;
  std::string text;
};
/// More processes are here: the process that leads says `between_steps` when it can.
struct join_wanted {
  uint64_t term = 0;
};
struct place_row {  ///< a place, for people
  uint32_t place = 0;
  std::string host;  ///< the machine's name; empty: there is one machine
  uint64_t process_id = 0;
  std::string state;  ///< as name_of(standing) says
  uint32_t losses = 0;
  uint32_t first = 0, count = 0;  ///< its ranks in the term
};
/// To the process that leads: who is there, whenever that changes.
struct roster {
  uint64_t term = 0;
  std::vector<place_row> places;
};
/// What are you in?
struct state_question {
  uint64_t question = 0;
};
/// The job is over.
struct dismissal {};

// ---- supervisor <-> the agent of another machine, which starts, watches and reaps processes there

/// To the agent, first: what its processes are started with: the same arguments as on the first machine, but for the
/// file, whose text this is.
struct job_order {
  std::vector<std::string> arguments;
  uint32_t file_argument = 0;  ///< the number of the argument that names the file
  std::string file;            ///< its text
  std::string folder;          ///< in which the first machine's processes run; these do too, where there is one
  uint32_t machine = 0;
  std::vector<uint32_t> places;
  int64_t lost_after_ns = 0;
};
/// To the agent.
struct start_place {
  uint32_t place = 0;
};
/// To the agent: and reap it.
struct kill_place {
  uint32_t place = 0;
};
/// From the agent: the process has ended, or its link.
struct place_ended {
  uint32_t place = 0;
  std::string how;
};
/// Both ways: a message of or for a process of the agent's machine, as it stands.
struct passed {
  uint32_t place = 0;
  std::string what;
};
/// Both ways: a signal of the system for the process that leads; to the agent: which is this one.
struct signalled {
  int32_t signal = 0;
  uint32_t place = 0;
};
/// To the agent: the job is over, with this code.
struct job_over {
  int32_t code = 0;
  std::string why{};     ///< for people; empty: it ended well, or who leads has said it
  bool goes_on = false;  ///< without this host
};

/// To the agent, before there is a job: a question of `troupe doctor`.
struct machine_question {
  uint64_t number = 0;
  std::string what;
};
/// From the agent.
struct machine_answer {
  uint64_t number = 0;
  std::string what;
};

using message = std::variant<hello, beat, offer, ready, quiet, failed, call, answer, kept_file, kept_save,
                             between_steps, state_text, leaving, begin_term, started, end_term, join_wanted,
                             state_question, dismissal, address, job_order, start_place, kill_place, place_ended,
                             passed, signalled, job_over, machine_question, machine_answer, roster, replace_wanted>;

/// A message and the descriptors that travel with it.
struct parcel {
  message what;
  std::vector<shared_descriptor> with{};
};

/// Ready for a frame.
std::string encode(const message& m);
/// Errors: mismatch, for bytes that are no message.
core::result<message> decode(std::string_view bytes);
/// For errors and logs.
std::string_view name_of(const message& m);

}  // namespace troupe::cluster
