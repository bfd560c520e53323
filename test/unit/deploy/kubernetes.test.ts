import { expect, test } from "vitest";
import { parse } from "yaml";
import { readCatalog } from "../../../src/config/catalog/catalog-file.ts";
import { readKeys } from "../../../src/config/keys-file.ts";
import { isLoopback } from "../../../src/config/network.ts";
import type { Settings } from "../../../src/config/settings.ts";
import { deployed, documentsOf, settingsOf, yamlFiles } from "../../support/documents/deployment.ts";

/** The parts of the manifests that the tests read. */
interface Manifest {
  kind: string;
  metadata: { name: string };
  data?: Record<string, string>;
  stringData?: Record<string, string>;
  spec?: unknown;
  resources?: string[];
}

interface Deployment extends Manifest {
  spec: {
    replicas: number;
    selector: { matchLabels: Labels };
    template: {
      metadata: { labels: Labels };
      spec: {
        enableServiceLinks: boolean;
        terminationGracePeriodSeconds: number;
        securityContext: { runAsNonRoot: boolean; runAsUser: number };
        containers: Container[];
        volumes: {
          name: string;
          configMap?: { name: string };
          secret?: { secretName: string; defaultMode: number; optional?: true };
        }[];
      };
    };
  };
}

type Labels = Record<string, string>;
type Probe = { httpGet: { path: string; port: string } };

interface Container {
  image: string;
  ports: { name: string; containerPort: number }[];
  envFrom: { configMapRef: { name: string } }[];
  env: { name: string; value: string }[];
  volumeMounts: { name: string; mountPath: string }[];
  startupProbe: Probe;
  livenessProbe: Probe;
  readinessProbe: Probe;
  lifecycle?: { preStop: { exec: { command: string[] } } };
  resources: { requests: { cpu: string; memory: string }; limits: { memory: string } };
  securityContext: { allowPrivilegeEscalation: boolean; readOnlyRootFilesystem: boolean };
}

/** The time that `serve` gives itself after the drain, in s. */
const CLOSE_S = 2;

const files = yamlFiles.filter((path) => path.startsWith("kubernetes/"));
const all = files.flatMap((path) => documentsOf(path) as Manifest[]);
const ofKind = (kind: string) => all.filter((manifest) => manifest.kind === kind);
const named = (kind: string, name: string): Manifest => {
  const found = ofKind(kind).find((manifest) => manifest.metadata.name === name);
  if (!found) throw new Error(`there is no ${kind} ${name}`);
  return found;
};
const deployments = ofKind("Deployment") as Deployment[];
const containerOf = ({ spec }: Deployment) => spec.template.spec.containers[0]!;

/** The environment as the kubelet builds it: later variables win. */
function environmentOf({ envFrom, env }: Container): Record<string, string> {
  const made: Record<string, string> = {};
  for (const { configMapRef } of envFrom) Object.assign(made, named("ConfigMap", configMapRef.name).data);
  for (const { name, value } of env) made[name] = value;
  return made;
}

/** The contents of a mounted file. @throws Error if the container has none at this path */
function fileIn(deployment: Deployment, path: string): string {
  const mount = containerOf(deployment).volumeMounts.find(({ mountPath }) => path.startsWith(`${mountPath}/`));
  const { secret, configMap } = deployment.spec.template.spec.volumes.find(({ name }) => name === mount?.name)!;
  const name = path.slice(mount!.mountPath.length + 1);
  const text = secret
    ? named("Secret", secret.secretName).stringData![name]
    : named("ConfigMap", configMap!.name).data![name];
  if (text === undefined) throw new Error(`${path} is not mounted`);
  return text;
}

const settingsIn = (deployment: Deployment): Settings =>
  settingsOf(environmentOf(containerOf(deployment)), (path) => fileIn(deployment, path));

test("every file is valid YAML, and kustomization.yaml lists all of them except the example of a secret", () => {
  expect(files.length).toBeGreaterThan(5);
  const { resources } = all.find(({ kind }) => kind === "Kustomization")!;
  const expected = files.map((path) => path.slice("kubernetes/".length));
  expect(resources!.toSorted()).toEqual(
    expected.filter((name) => name !== "kustomization.yaml" && name !== "secret.example.yaml"),
  );
  // The manifests are applied to any namespace.
  for (const path of files) expect(deployed(path), path).not.toMatch(/^\s+namespace:/m);
});

test("there is a deployment for each role, with valid settings", () => {
  const settings = deployments.map(settingsIn);
  expect(settings.map(({ roles }) => roles.join())).toEqual(["gateway", "orchestrator", "worker"]);
  for (const { host, auth } of settings) {
    expect(isLoopback(host)).toBe(false);
    expect(auth).not.toBe("none");
  }
});

test.each(deployments.map((each) => [each.metadata.name, each] as const))(
  "%s is probed at its port, and has time to shut down and only the rights and memory that it needs",
  (_, deployment) => {
    const { ports, startupProbe, livenessProbe, readinessProbe, ...rest } = containerOf(deployment);
    const { lifecycle, resources, securityContext } = rest;
    expect(ports).toEqual([{ name: "http", containerPort: settingsIn(deployment).port }]);
    for (const [probe, path] of [
      [startupProbe, "/health"],
      [livenessProbe, "/health"],
      [readinessProbe, "/ready"],
    ] as const) {
      expect(probe.httpGet).toEqual({ path, port: "http" });
    }
    const { spec } = deployment.spec.template;
    const pause = /setTimeout\(.*, (\d+)\)$/.exec(lifecycle?.preStop.exec.command.at(-1) ?? "")?.[1] ?? 0;
    const needed = Number(pause) / 1_000 + settingsIn(deployment).drainMs / 1_000 + CLOSE_S;
    expect(spec.terminationGracePeriodSeconds).toBeGreaterThan(needed);
    expect(spec.enableServiceLinks).toBe(false);
    // The user `node` of the image.
    expect(spec.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 });
    expect(securityContext).toMatchObject({ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true });
    expect(resources.limits.memory).toMatch(/Gi$/);
    expect(deployment.spec.replicas).toBeGreaterThan(1);
  },
);

test("every selector matches the labels of its pods", () => {
  const isPart = (part: Labels, whole: Labels) => Object.entries(part).every(([key, value]) => whole[key] === value);
  const leadTo = (labels: Labels) =>
    deployments
      .filter(({ spec }) => isPart(labels, spec.template.metadata.labels))
      .map(({ metadata }) => metadata.name);
  for (const { metadata, spec } of deployments) expect(leadTo(spec.selector.matchLabels)).toEqual([metadata.name]);
  const budgets = ofKind("PodDisruptionBudget").map(({ spec }) =>
    leadTo((spec as Deployment["spec"]).selector.matchLabels),
  );
  expect(budgets).toEqual(deployments.map(({ metadata }) => [metadata.name]));
  const [service, ...more] = ofKind("Service");
  expect(more).toEqual([]);
  const { selector, ports } = service!.spec as { selector: Labels; ports: { targetPort: string }[] };
  expect(leadTo(selector)).toEqual(["interlock-gateway"]);
  expect(ports.map(({ targetPort }) => targetPort)).toEqual(["http"]);
});

test("all deployments run one image, and mount their files where their settings expect them", () => {
  expect(new Set(deployments.map((each) => containerOf(each).image))).toEqual(new Set(["interlock"]));
  for (const deployment of deployments) {
    const { configPath, auth } = settingsIn(deployment);
    expect(readCatalog(fileIn(deployment, configPath)).ok).toBe(true);
    expect(readKeys(fileIn(deployment, (auth as { file: string }).file)).ok).toBe(true);
  }
});

test("secrets are files that the group of the nodes may read, and no environment has one", () => {
  const settings = documentsOf("kubernetes/settings.yaml")[0] as Manifest;
  expect(settings.data).not.toHaveProperty("INTERLOCK_PROXIES");
  for (const path of files) expect(deployed(path), path).not.toMatch(/secretRef|secretKeyRef/);
  for (const deployment of deployments) {
    const { volumes } = deployment.spec.template.spec;
    for (const { secret } of volumes) if (secret) expect(secret.defaultMode).toBe(0o440);
  }
});

test("the keys of providers are on nodes that drive agents or report their availability", () => {
  const provided = deployments.map(
    ({ spec }) =>
      spec.template.spec.volumes.filter(({ secret }) => secret?.secretName === "interlock-providers").length,
  );
  expect(provided).toEqual([1, 0, 1]);
  const [gateway] = deployments;
  for (const name of Object.keys(named("Secret", "interlock-providers").stringData!)) {
    expect(fileIn(gateway!, environmentOf(containerOf(gateway!))[`${name}_FILE`]!)).toBe("a-key");
  }
});

test("programs may run as users of their own: the worker of kubernetes-run-as is root with the rights for that alone", () => {
  const { resources, patches } = documentsOf("kubernetes-run-as/kustomization.yaml")[0] as {
    resources: string[];
    patches: { target: { kind: string; name: string }; patch: string }[];
  };
  expect(resources).toEqual(["../kubernetes"]);
  expect(patches.map(({ target }) => target)).toEqual([{ kind: "Deployment", name: "interlock-worker" }]);
  const worker = structuredClone(deployments.find(({ metadata }) => metadata.name === "interlock-worker")!);
  for (const { op, path, value } of parse(patches[0]!.patch) as { op: string; path: string; value: unknown }[]) {
    const steps = path.slice(1).split("/");
    let parent = worker as unknown as Record<string, unknown>;
    for (const step of steps.slice(0, -1)) parent = parent[step] as Record<string, unknown>;
    expect(steps.at(-1)! in parent).toBe(op === "replace");
    Object.assign(parent, { [steps.at(-1)!]: value });
  }
  expect(worker.spec.template.spec.securityContext).toMatchObject({ runAsNonRoot: false, runAsUser: 0 });
  expect(containerOf(worker).securityContext).toMatchObject({
    allowPrivilegeEscalation: false,
    capabilities: { drop: ["ALL"], add: ["SETUID", "SETGID", "KILL"] },
  });
});
