# Where program, library, headers and the shipped checkpoint go: bin/thalweg, lib/libthalweg.so,
# include/thalweg and share/thalweg/models/nano, so that program and library find the checkpoint relative to
# themselves in the build folder and once installed.
include(GNUInstallDirs)
if(TARGET thalweg)
  install(TARGETS thalweg RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET thalweg_shared)
  install(TARGETS thalweg_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/thalweg DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/models/nano DESTINATION ${CMAKE_INSTALL_DATADIR}/thalweg/models)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
