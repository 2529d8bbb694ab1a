// swift-tools-version: 6.2
// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

// A package of its own: it measures Larder as a user's package would meet it, and nobody who
// imports Larder resolves its rivals. `scripts/bench` builds and runs it.
let package = Package(
  name: "benchmarks",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(name: "larder", path: "../..", traits: ["Macros"]),
    .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
  ],
  targets: [
    .systemLibrary(
      name: "CLMDB", pkgConfig: "lmdb", providers: [.apt(["liblmdb-dev"]), .brew(["lmdb"])]),
    // The rival: liblmdb as C would use it, timed in C.
    .target(
      name: "LMDBBaseline", dependencies: ["CLMDB"], linkerSettings: [.linkedLibrary("lmdb")]),
    .executableTarget(
      name: "larder-bench",
      dependencies: [
        "LMDBBaseline", "BaselineClients", .product(name: "Larder", package: "larder"),
        .product(name: "LarderObjects", package: "larder"),
        .product(name: "LarderSchema", package: "larder"),
        .product(name: "GRDB", package: "GRDB.swift"),
        .product(name: "LarderDefaults", package: "larder"),
      ],
      path: "Sources/LarderBench"),
    // Rivals reached from C: Redis, memcached, SQLite, LMDB, files.
    .target(
      name: "BaselineClients", dependencies: ["CLMDB"],
      linkerSettings: [.linkedLibrary("lmdb"), .linkedLibrary("sqlite3")]),
    // Larder beside them, beside GRDB and beside Python's diskcache.
    .executableTarget(
      name: "larder-peer-bench",
      dependencies: [
        "LMDBBaseline", "BaselineClients", .product(name: "Larder", package: "larder"),
        .product(name: "LarderObjects", package: "larder"),
        .product(name: "LarderDefaults", package: "larder"),
        .product(name: "GRDB", package: "GRDB.swift"),
      ],
      path: "Sources/PeerBench"),
    // Pictures and a page from what the others wrote. Builds without anything.
    .executableTarget(name: "larder-bench-report", path: "Sources/BenchReport"),
    // The tool from outside. Builds without Larder and its rivals.
    .executableTarget(
      name: "larder-tool-bench", dependencies: ["LMDBBaseline"], path: "Sources/ToolBench"),
  ],
  swiftLanguageModes: [.v6]
)
