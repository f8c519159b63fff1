// In place of session.cc where the program is built without MPI.
#include "comm/mpi/session.h"

namespace thalweg::comm {

struct MpiSession::Handles {};

Result<std::unique_ptr<MpiSession>> MpiSession::Start(Limits /*limits*/) {
  return base::Unsupported(
      "this program was built without MPI: install libopenmpi-dev, configure with -DTHALWEG_MPI=ON "
      "and build again");
}

MpiSession::~MpiSession() = default;

Status MpiSession::End() { return {}; }

}  // namespace thalweg::comm
