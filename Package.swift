// swift-tools-version: 6.2
// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import CompilerPluginSupport
import PackageDescription

/// A product of another package, which is resolved only with a trait.
func outside(_ product: String, _ package: String, _ trait: String) -> Target.Dependency {
  .product(name: product, package: package, condition: .when(traits: [trait]))
}

let package = Package(
  name: "larder",
  platforms: [.macOS(.v15)],
  products: [
    .library(name: "Larder", targets: ["Larder"]),
    .library(name: "LarderObjects", targets: ["LarderObjects"]),
    .library(name: "LarderSchema", targets: ["LarderSchema"]),
    .library(name: "LarderArchive", targets: ["LarderArchive"]),
    .library(name: "LarderDefaults", targets: ["LarderDefaults"]),
    .library(name: "LarderCombine", targets: ["LarderCombine"]),
    .library(name: "LarderStorage", targets: ["LarderStorage"]),
    .library(name: "LarderLMDB", targets: ["LarderLMDB"]),
    .library(name: "LarderLogging", targets: ["LarderLogging"]),
    .library(name: "LarderMetrics", targets: ["LarderMetrics"]),
    .library(name: "LarderTracing", targets: ["LarderTracing"]),
    .library(name: "LarderRedis", targets: ["LarderRedis"]),
    .library(name: "LarderTesting", targets: ["LarderTesting"]),
    .executable(name: "larder", targets: ["LarderCLI"]),
    .executable(name: "larder-demo", targets: ["LarderDemo"]),
    .executable(name: "larder-stress", targets: ["LarderStress"]),
    .executable(name: "larder-hosts", targets: ["LarderHosts"]),
  ],
  // What needs other packages is behind traits. They are on by default, so that `swift build` and
  // `swift test` build everything here; a package that depends on Larder with `traits: []` resolves and
  // clones none of those packages.
  traits: [
    .default(enabledTraits: [
      "Tools", "Logging", "Metrics", "Tracing", "Combine", "Macros", "Redis",
    ]),
    .trait(
      name: "Tools", description: "The tools larder, larder-demo, larder-stress: argument parser."),
    .trait(name: "Logging", description: "The product LarderLogging: swift-log."),
    .trait(name: "Metrics", description: "The product LarderMetrics: swift-metrics."),
    .trait(name: "Tracing", description: "The product LarderTracing: swift-distributed-tracing."),
    .trait(name: "Combine", description: "The product LarderCombine: OpenCombine on Linux."),
    .trait(name: "Redis", description: "The product LarderRedis: swift-nio, swift-nio-ssl."),
    .trait(name: "Macros", description: "The product LarderSchema, @Storable: swift-syntax."),
    // Compiles the named fault points in (kill, stop, delay, error). Storms need them, optimised
    // builds included; programs that import Larder compile none.
    .trait(name: "FaultInjection", description: "Compile named fault points into the engine."),
  ],
  dependencies: [
    // The executables only: trait Tools.
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    // LarderCombine only, where the system has no Combine: trait Combine.
    .package(url: "https://github.com/OpenCombine/OpenCombine", from: "0.14.0"),
    // LarderSchema only: trait Macros.
    .package(url: "https://github.com/swiftlang/swift-syntax", "600.0.0"..<"604.0.0"),
    // LarderLogging, LarderMetrics and LarderTracing only: the traits of the same names.
    .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.2"),
    // LarderRedis only: trait Redis.
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
    .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.0"),
  ],
  targets: [
    .systemLibrary(
      name: "CLarderLMDB",
      path: "Modules/CLarderLMDB",
      pkgConfig: "lmdb",
      providers: [.apt(["liblmdb-dev"]), .brew(["lmdb"])]),

    // The two bottom modules, the only callers of C.
    .target(name: "LarderSystem", dependencies: ["CLarderLMDB"]),
    .target(name: "LarderLMDB", dependencies: ["CLarderLMDB", "LarderSystem"]),

    .target(name: "LarderCoding"),
    // Storages that compose. They need file calls and the check of property lists: no engine.
    .target(name: "LarderStorage", dependencies: ["LarderSystem", "LarderCoding"]),
    .target(name: "LarderEngine", dependencies: ["LarderLMDB", "LarderSystem", "LarderCoding"]),
    // Object types, objects, indexes and query plans, in the tables of a store.
    .target(
      name: "LarderObjectEngine",
      dependencies: ["LarderEngine", "LarderLMDB", "LarderSystem", "LarderCoding"]),
    // Verification, salvage and repair of a store's files.
    .target(
      name: "LarderRecovery",
      dependencies: [
        "LarderObjectEngine", "LarderEngine", "LarderLMDB", "LarderSystem", "LarderCoding",
      ]),
    .target(name: "LarderCache", dependencies: ["LarderEngine", "LarderCoding"]),
    .target(
      name: "LarderObjects",
      dependencies: [
        "LarderCache", "LarderObjectEngine", "LarderEngine", "LarderRecovery", "LarderCoding",
        "LarderStorage", "LarderSystem",
      ]),
    // The macros of types with a declared schema, and the compiler plugin that expands them. No test depends
    // on the plugin: it would be built a second time, with swift-syntax.
    .macro(
      name: "LarderSchemaMacros",
      dependencies: [
        outside("SwiftSyntaxMacros", "swift-syntax", "Macros"),
        outside("SwiftCompilerPlugin", "swift-syntax", "Macros"),
      ]),
    .target(name: "LarderSchema", dependencies: ["LarderSchemaMacros", "LarderObjects"]),
    .target(
      name: "LarderArchive",
      dependencies: ["LarderObjects", "LarderCache", "LarderEngine", "LarderCoding"]),
    .target(
      name: "LarderDynamic", dependencies: ["LarderObjectEngine", "LarderEngine", "LarderCoding"]),
    .target(
      name: "LarderDefaults",
      dependencies: ["LarderCache", "LarderEngine", "LarderCoding", "LarderSystem"]),
    .target(
      name: "Larder",
      dependencies: [
        "LarderCache", "LarderEngine", "LarderRecovery", "LarderCoding", "LarderStorage",
      ]),

    // Publishers. A program that does not import it builds nothing of OpenCombine.
    .target(
      name: "LarderCombine",
      dependencies: [
        "LarderCache", "LarderObjects", "LarderEngine", "LarderCoding",
        .product(
          name: "OpenCombine", package: "OpenCombine",
          condition: .when(platforms: [.linux, .android, .windows], traits: ["Combine"])),
      ]),

    // The events and operations of a store, to a log, to metrics and to traces. A program builds those
    // that it imports.
    .target(
      name: "LarderLogging",
      dependencies: ["LarderEngine", outside("Logging", "swift-log", "Logging")]),
    .target(
      name: "LarderMetrics",
      dependencies: ["LarderEngine", outside("CoreMetrics", "swift-metrics", "Metrics")]),
    .target(
      name: "LarderTracing",
      dependencies: ["LarderEngine", outside("Tracing", "swift-distributed-tracing", "Tracing")]),

    // A client of Redis and Valkey.
    .target(
      name: "LarderRedis",
      dependencies: [
        "LarderCache", "LarderEngine", "LarderSystem",
        outside("NIOCore", "swift-nio", "Redis"), outside("NIOPosix", "swift-nio", "Redis"),
        outside("NIOTLS", "swift-nio", "Redis"), outside("NIOSSL", "swift-nio-ssl", "Redis"),
      ]),

    // Results of commands, for the tool. No Foundation: a hit is mostly the start of a process.
    .target(name: "LarderMemo", dependencies: ["LarderEngine", "LarderCoding", "LarderSystem"]),
    .executableTarget(
      name: "LarderCLI",
      dependencies: [
        "Larder", "LarderDefaults", "LarderDynamic", "LarderMemo", "LarderRecovery",
        "LarderObjectEngine", "LarderEngine", "LarderCoding", "LarderCache",
        .target(name: "LarderRedis", condition: .when(traits: ["Redis"])),
        outside("ArgumentParser", "swift-argument-parser", "Tools"),
      ]),

    // The chaos kit: how tools and tests run, kill and judge other processes.
    .target(
      name: "LarderTesting",
      dependencies: [
        "Larder", "LarderCache", "LarderEngine", "LarderRecovery", "LarderCoding", "LarderStorage",
        "LarderSystem",
      ]),
    .executableTarget(
      name: "LarderDemo",
      dependencies: [
        "Larder", "LarderEngine", "LarderRecovery", "LarderTesting",
        outside("ArgumentParser", "swift-argument-parser", "Tools"),
      ]),
    // Several hosts with one server: its demo, its figures, and the processes of its tests.
    .executableTarget(
      name: "LarderHosts",
      dependencies: [
        "Larder", "LarderRedis", "LarderEngine", "LarderSystem", "LarderTesting",
        outside("ArgumentParser", "swift-argument-parser", "Tools"),
      ]),
    .executableTarget(
      name: "LarderStress",
      dependencies: [
        "Larder", "LarderCache", "LarderObjects", "LarderDefaults", "LarderStorage",
        "LarderObjectEngine", "LarderEngine", "LarderCoding", "LarderLMDB", "LarderSystem",
        "LarderDynamic", "LarderRecovery", "LarderTesting",
        .target(name: "LarderSchema", condition: .when(traits: ["Macros"])),
        outside("ArgumentParser", "swift-argument-parser", "Tools"),
      ]),
    .executableTarget(
      name: "LarderTestWorker",
      dependencies: [
        "Larder", "LarderObjects", "LarderArchive", "LarderDefaults", "LarderEngine",
        "LarderLMDB", "LarderSystem", "LarderTesting",
      ],
      path: "Tests/LarderTestWorker"),

    .testTarget(
      name: "LarderTestingTests",
      dependencies: ["Larder", "LarderSystem", "LarderTesting", "LarderTestWorker"]),
    .testTarget(name: "LarderSystemTests", dependencies: ["LarderSystem", "LarderTesting"]),
    .testTarget(
      name: "LarderLMDBTests",
      dependencies: ["Larder", "LarderLMDB", "LarderSystem", "LarderTesting", "LarderTestWorker"]),
    .testTarget(name: "LarderCodingTests", dependencies: ["LarderCoding", "LarderTesting"]),
    .testTarget(
      name: "LarderEngineTests",
      dependencies: ["Larder", "LarderCoding", "LarderEngine", "LarderSystem", "LarderTesting"]),
    .testTarget(
      name: "LarderCacheTests", dependencies: ["Larder", "LarderEngine", "LarderTesting"]),
    .testTarget(
      name: "LarderSchemaTests",
      dependencies: [
        "LarderSchema", "LarderObjects", "LarderEngine", "LarderTesting",
      ]),
    .testTarget(
      name: "LarderObjectsTests",
      dependencies: ["LarderObjects", "LarderEngine", "LarderTesting"]),
    .testTarget(
      name: "LarderStorageTests",
      dependencies: [
        "Larder", "LarderObjects", "LarderStorage", "LarderSystem", "LarderTesting",
        "LarderTestWorker",
      ]),
    .testTarget(
      name: "LarderArchiveTests",
      dependencies: [
        "LarderArchive", "LarderObjects", "LarderEngine", "LarderTesting", "LarderTestWorker",
      ]),
    .testTarget(
      name: "LarderDefaultsTests",
      dependencies: [
        "LarderDefaults", "LarderEngine", "LarderSystem", "LarderTesting", "LarderTestWorker",
      ]),
    .testTarget(
      name: "LarderCombineTests",
      dependencies: ["Larder", "LarderObjects", "LarderCombine", "LarderEngine", "LarderTesting"]),
    .testTarget(
      name: "LarderLoggingTests",
      dependencies: [
        "Larder", "LarderLogging", "LarderEngine", "LarderTesting",
        outside("Logging", "swift-log", "Logging"),
        outside("InMemoryLogging", "swift-log", "Logging"),
      ]),
    .testTarget(
      name: "LarderMetricsTests",
      dependencies: [
        "Larder", "LarderMetrics", "LarderEngine", "LarderTesting", "LarderCLI", "LarderTestWorker",
        outside("CoreMetrics", "swift-metrics", "Metrics"),
        outside("MetricsTestKit", "swift-metrics", "Metrics"),
      ]),
    .testTarget(
      name: "LarderTracingTests",
      dependencies: [
        "Larder", "LarderTracing", "LarderEngine", "LarderTesting", "LarderTestWorker",
        outside("Tracing", "swift-distributed-tracing", "Tracing"),
        outside("InMemoryTracing", "swift-distributed-tracing", "Tracing"),
      ]),
    .testTarget(
      name: "LarderRedisTests",
      dependencies: [
        "LarderRedis", "Larder", "LarderEngine", "LarderTesting", "LarderHosts", "LarderCLI",
        outside("NIOCore", "swift-nio", "Redis"), outside("NIOPosix", "swift-nio", "Redis"),
      ]),
    .testTarget(
      name: "LarderProcessTests",
      dependencies: [
        "Larder", "LarderObjects", "LarderEngine", "LarderTesting", "LarderTestWorker",
      ]),
    .testTarget(name: "LarderStormTests", dependencies: ["LarderTesting", "LarderStress"]),
    .testTarget(
      name: "LarderCrashTests",
      dependencies: [
        "Larder", "LarderObjects", "LarderEngine", "LarderSystem", "LarderTesting",
        "LarderTestWorker",
        "LarderStress",
      ]),
    .testTarget(
      name: "LarderDynamicTests",
      dependencies: [
        "LarderDynamic", "LarderObjects", "LarderEngine", "LarderCoding", "LarderTesting",
      ]),
    .testTarget(
      name: "LarderCLITests",
      dependencies: [
        "Larder", "LarderObjects", "LarderDefaults", "LarderDynamic", "LarderMemo", "LarderCoding",
        "LarderEngine", "LarderSystem", "LarderTesting", "LarderCLI", "LarderDemo",
        "LarderTestWorker",
      ]),
  ],
  swiftLanguageModes: [.v6]
)

for target in package.targets where target.type != .system {
  target.swiftSettings =
    (target.swiftSettings ?? []) + [
      .enableUpcomingFeature("ExistentialAny"),
      .enableUpcomingFeature("InternalImportsByDefault"),
      .enableUpcomingFeature("MemberImportVisibility"),
      .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
      .enableExperimentalFeature("Lifetimes"),
      .strictMemorySafety(),
      .define("FAULTS", .when(traits: ["FaultInjection"])),
    ]
  // Optimised libraries halve the time of the tests. SwiftPM allows the setting in a root package only, so it is not
  // for users of the package: scripts/test and scripts/check set the variable.
  if Context.environment["LARDER_OPTIMISED"] == "1", target.type == .regular {
    target.swiftSettings?.append(.unsafeFlags(["-O"]))
  }
}
