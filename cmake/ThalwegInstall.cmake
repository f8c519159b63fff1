# Where the program and the shipped checkpoint go: bin/thalweg and share/thalweg/models/nano, so that the
# program finds the checkpoint relative to itself in the build folder and once installed.
include(GNUInstallDirs)
if(TARGET thalweg)
  install(TARGETS thalweg RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/models/nano DESTINATION ${CMAKE_INSTALL_DATADIR}/thalweg/models)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
