// The header of programs whose ranks are in several processes: the process that starts and watches the others
// (launch), the job that it watches (supervised), and the link of each process that has ranks (process).
#pragma once

#include "cluster/launch.hpp"
#include "cluster/process.hpp"
#include "job/supervised.hpp"
