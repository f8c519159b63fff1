// Harm done to one rank of `thalweg batch` or `thalweg serve` under mpirun at some moment, and what
// must come of it.
#pragma once

namespace thalweg::tests {

enum class ProgramHarm {
  kKill,           // kill -9: mpirun sees it, names the rank and ends the others
  kStop,           // SIGSTOP: nobody sees it but the ranks
  kKillUnnoticed,  // kill -9 where the launcher leaves the others alone
};

struct ProgramHarmCase {
  bool serve = false;  // with clients that wait for answers; otherwise batch
  int victim = 1;      // of three ranks
  ProgramHarm harm = ProgramHarm::kKill;
  int delay_ms = 0;    // from the moment at which all ranks have joined: loading, then steps
  bool again = false;  // batch: the same command then answers the rest
};

// Every other rank is gone within ten seconds with the right words and exit codes; nobody waits for
// an answer any more; lines of the output are those of a run without harm.
void HarmProgram(const ProgramHarmCase& c);

}  // namespace thalweg::tests
