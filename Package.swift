// swift-tools-version: 6.2
// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import CompilerPluginSupport
import PackageDescription

/// Tests, with what all of them may use.
func tests(_ module: String, _ dependencies: Target.Dependency...) -> Target {
  .testTarget(name: module, dependencies: dependencies + ["LarderTestSupport", "LarderTesting"])
}

/// A product of another package, which is resolved only with a trait.
func outside(_ product: String, _ package: String, _ trait: String) -> Target.Dependency {
  .product(name: product, package: package, condition: .when(traits: [trait]))
}

/// A product of OpenCombine, where the system has no Combine.
func openCombine(_ product: String) -> Target.Dependency {
  .product(
    name: product, package: "OpenCombine",
    condition: .when(platforms: [.linux, .android, .windows], traits: ["Combine"]))
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
  ],
  // What needs other packages is behind a trait, and none is on by default: a package that depends on Larder
  // clones what it names, and nothing else. scripts/test names those that its tests need.
  traits: [
    .trait(name: "Tools", description: "The tool larder: swift-argument-parser."),
    .trait(name: "Logging", description: "The product LarderLogging: swift-log."),
    .trait(name: "Metrics", description: "The product LarderMetrics: swift-metrics."),
    .trait(name: "Tracing", description: "The product LarderTracing: swift-distributed-tracing."),
    .trait(name: "Combine", description: "The product LarderCombine: OpenCombine on Linux."),
    .trait(name: "Redis", description: "The product LarderRedis: swift-nio."),
    .trait(
      name: "RedisTLS", description: "LarderRedis with encrypted connections: swift-nio-ssl.",
      enabledTraits: ["Redis"]),
    .trait(name: "Macros", description: "The product LarderSchema, @Storable: swift-syntax."),
    // Compiles the named fault points in (kill, stop, delay, error). Storms need them, optimised
    // builds included; programs that import Larder compile none.
    .trait(name: "FaultInjection", description: "Compile named fault points into the engine."),
  ],
  dependencies: [
    // The tool and the child processes of tests: trait Tools.
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    // LarderCombine only, where the system has no Combine: trait Combine.
    .package(url: "https://github.com/OpenCombine/OpenCombine", from: "0.14.0"),
    // LarderSchema only: trait Macros.
    .package(url: "https://github.com/swiftlang/swift-syntax", "600.0.0"..<"604.0.0"),
    // LarderLogging, LarderMetrics and LarderTracing only: the traits of the same names.
    .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.2"),
    // LarderRedis only: traits Redis and RedisTLS.
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
        openCombine("OpenCombine"), openCombine("OpenCombineDispatch"),
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
        outside("NIOTLS", "swift-nio", "Redis"), outside("NIOSSL", "swift-nio-ssl", "RedisTLS"),
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

    // The other processes of the tests, with the randomised crash tester and the hosts of one Redis server.
    .executableTarget(
      name: "LarderPeer",
      dependencies: [
        "Larder", "LarderCache", "LarderObjects", "LarderArchive", "LarderDefaults",
        "LarderStorage", "LarderObjectEngine", "LarderEngine", "LarderCoding", "LarderLMDB",
        "LarderSystem", "LarderDynamic", "LarderRecovery", "LarderTesting",
        .target(name: "LarderSchema", condition: .when(traits: ["Macros"])),
        .target(name: "LarderRedis", condition: .when(traits: ["Redis"])),
        outside("ArgumentParser", "swift-argument-parser", "Tools"),
      ],
      path: "Tests/LarderPeer"),
    // What several test targets use: the products of this build, and the share of a run.
    .target(name: "LarderTestSupport", dependencies: ["LarderTesting"], path: "Tests/Support"),

    tests("LarderTestingTests", "Larder", "LarderSystem", "LarderPeer"),
    tests("LarderSystemTests", "LarderSystem"),
    tests("LarderLMDBTests", "Larder", "LarderLMDB", "LarderSystem", "LarderPeer"),
    tests("LarderCodingTests", "LarderCoding"),
    tests("LarderEngineTests", "Larder", "LarderCoding", "LarderEngine", "LarderSystem"),
    tests("LarderCacheTests", "Larder", "LarderEngine"),
    // Stored types in a module whose default isolation is the main actor, for the tests of the macros.
    .target(
      name: "LarderMainActorTypes", dependencies: ["LarderSchema"], path: "Tests/MainActorTypes",
      swiftSettings: [.defaultIsolation(MainActor.self)]),
    tests(
      "LarderSchemaTests", "LarderSchema", "LarderObjects", "LarderEngine", "LarderMainActorTypes"),
    tests("LarderObjectsTests", "LarderObjects", "LarderEngine"),
    tests(
      "LarderStorageTests", "Larder", "LarderObjects", "LarderStorage", "LarderSystem", "LarderPeer"
    ),
    tests("LarderArchiveTests", "LarderArchive", "LarderObjects", "LarderEngine", "LarderPeer"),
    tests("LarderDefaultsTests", "LarderDefaults", "LarderEngine", "LarderSystem", "LarderPeer"),
    tests("LarderCombineTests", "Larder", "LarderObjects", "LarderCombine", "LarderEngine"),
    tests(
      "LarderLoggingTests", "Larder", "LarderLogging", "LarderEngine",
      outside("Logging", "swift-log", "Logging"),
      outside("InMemoryLogging", "swift-log", "Logging")),
    tests(
      "LarderMetricsTests", "Larder", "LarderMetrics", "LarderEngine", "LarderCLI", "LarderPeer",
      outside("CoreMetrics", "swift-metrics", "Metrics"),
      outside("MetricsTestKit", "swift-metrics", "Metrics")),
    tests(
      "LarderTracingTests", "Larder", "LarderTracing", "LarderEngine", "LarderPeer",
      outside("Tracing", "swift-distributed-tracing", "Tracing"),
      outside("InMemoryTracing", "swift-distributed-tracing", "Tracing")),
    tests(
      "LarderRedisTests", "LarderRedis", "Larder", "LarderEngine", "LarderCLI", "LarderPeer",
      outside("NIOCore", "swift-nio", "Redis"), outside("NIOPosix", "swift-nio", "Redis")),
    tests(
      "LarderProcessTests", "Larder", "LarderObjects", "LarderEngine", "LarderSystem", "LarderPeer"),
    tests("LarderStormTests", "LarderPeer"),
    tests(
      "LarderCrashTests", "Larder", "LarderObjects", "LarderEngine", "LarderSystem", "LarderPeer"),
    tests("LarderDynamicTests", "LarderDynamic", "LarderObjects", "LarderEngine", "LarderCoding"),
    tests(
      "LarderCLITests", "Larder", "LarderObjects", "LarderDefaults", "LarderDynamic", "LarderMemo",
      "LarderCoding", "LarderEngine", "LarderSystem", "LarderCLI", "LarderPeer"),
  ],
  swiftLanguageModes: [.v6]
)

// `scripts/test --target`: the others are not compiled.
if let names = Context.environment["LARDER_TEST_TARGETS"]?.split(separator: " ") {
  package.targets.removeAll { $0.type == .test && !names.contains(Substring($0.name)) }
}

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
  // The bottom modules, which code, decode and look up, are optimised in the builds of scripts/test and scripts/demo:
  // without that the tests take half as much processor time again, and the demo shows half of what the cache saves.
  // SwiftPM allows such flags in a root package, and in one that another names by its path.
  if Context.environment["LARDER_QUICK_BUILD"] == "1",
    ["LarderSystem", "LarderLMDB", "LarderCoding"].contains(target.name)
  {
    target.swiftSettings?.append(
      .unsafeFlags(["-O", "-whole-module-optimization", "-num-threads", "2"]))
  }
}
